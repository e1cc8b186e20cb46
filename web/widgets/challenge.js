// <hubbub-challenge challenge="hunt" guest>: submit answers, and see your progress, the leaders and the statistics.

import { make } from "../lib/dom.js";
import { nameField, Widget } from "./element.js";
import { follow } from "./live.js";

const POLL_INTERVAL = 5000; // ms between two loads without a socket
const MIN_INTERVAL = 2000; // ms between two loads, however many updates are pushed
const LONGEST_PAUSE = 60_000; // ms
const LONGEST_TIMER = 2 ** 31 - 1; // ms, of setTimeout
const NOTHING = { found: 0, paths: [] };

class Challenge extends Widget {
  static observedAttributes = ["api", "socket", "challenge", "limit", "token", "guest", "lang"];
  #challenge = null; #mine = NOTHING; #me = ""; #stop; #turn = 0; #again = 0; #change = 0; #failures = 0; #loadedAt = 0;
  #isLoading = false; #isRequested = false; #isSending = false;
  #title = make("h3", { part: "title" });
  #facts = make("p", { part: "facts", className: "quiet" });
  #standing = make("p", { part: "standing" });
  #progress = make("progress", {});
  #answer = make("input", { name: "path", maxLength: 200, autocomplete: "off", required: true });
  #answerLabel = make("span");
  #submit = make("button", { className: "primary" });
  #name = make("span", { className: "grow" });
  #form = make("form", { part: "form", className: "row", onsubmit: (event) => this.#send(event) },
    make("label", { className: "grow" }, this.#answerLabel, this.#answer), this.#name, this.#submit);
  #message = make("p", { part: "message", role: "status" });
  #signIn = make("p", { className: "quiet" });
  #slot = make("slot", { name: "sign-in" }, this.#signIn);
  #found = make("ul", { part: "found" });
  #reached = make("ol", { part: "statistics" });
  #caption = make("caption");
  #head = make("tr");
  #rows = make("tbody");
  #leaders = make("table", { part: "leaders" }, this.#caption, make("thead", {}, this.#head), this.#rows);
  #body = make("div", { className: "body", hidden: true }, this.#standing, this.#progress, this.#form, this.#slot, this.#message,
    this.#found, this.#reached, this.#leaders);

  constructor() {
    super(STYLE);
    this.shadowRoot.append(this.#title, this.#facts, this.stateLine, this.#body);
  }

  get #id() { return this.getAttribute("challenge") ?? ""; }
  get #limit() { return Math.min(100, Math.max(0, Number(this.getAttribute("limit") ?? 5) || 0)); }
  get #text() { return this.words.challenge; }

  begin() {
    const { words } = this, text = words.challenge;
    this.#clear();
    [this.#answerLabel.textContent, this.#signIn.textContent] = [text.answer, text.signIn];
    [this.#progress.ariaLabel, this.#found.ariaLabel, this.#reached.ariaLabel] = [text.progressLabel, text.found, text.statistics];
    this.#caption.textContent = text.leaders;
    this.#head.replaceChildren(column(words.rank, "number"), column(words.player), column(text.answers, "number"));
    this.setState("loading", words.loading);
    this.#load();
    this.#stop = follow({
      hub: this.hub,
      topic: `challenge:${this.#id}`,
      every: POLL_INTERVAL,
      changed: (value) => this.#changed(value),
    });
  }

  end() {
    this.#stop?.();
    clearTimeout(this.#again);
    clearTimeout(this.#change);
    this.#turn += 1;
    [this.#isLoading, this.#isRequested] = [false, false];
  }

  /** Remove what was shown of another challenge, or of one that no longer exists. */
  #clear() {
    [this.#challenge, this.#mine] = [null, NOTHING];
    for (const part of [this.#title, this.#facts, this.#message]) part.replaceChildren();
    this.#body.hidden = true;
  }

  // -- read --------------------------------------------------------------------------------------------

  #changed(value) {
    if (!value) return this.#failures || this.#load();
    if (this.#challenge) this.#showStatistics(value);
    clearTimeout(this.#again); // for the leaders, once for several pushes
    this.#again = setTimeout(() => this.#load(), Math.max(0, this.#loadedAt + MIN_INTERVAL - Date.now()));
  }

  /** Load everything that is shown. Calls during a load cause one further load after it. */
  async #load() {
    if (this.#isLoading) {
      this.#isRequested = true;
      return;
    }
    const turn = this.#turn, named = { challenge: this.#id };
    clearTimeout(this.#again);
    [this.#isLoading, this.#isRequested, this.#loadedAt] = [true, false, Date.now()];
    try {
      const me = await this.visitor();
      const challenge = this.#challenge ?? (await this.call("getChallenge", named));
      const [statistics, leaders, mine] = await Promise.all([
        this.call("getChallengeStatistics", named),
        challenge.ranked && this.#limit ? this.call("getChallengeLeaders", { ...named, limit: this.#limit }) : { items: [] },
        this.#loadProgress(me),
      ]);
      if (turn !== this.#turn) return;
      [this.#challenge, this.#me, this.#mine, this.#failures] = [challenge, me, mine, 0];
      this.#show();
      this.#showStatistics(statistics);
      this.#showLeaders(leaders.items);
      this.setState("ready");
    } catch (error) {
      if (turn !== this.#turn) return;
      if (error.status === 404) this.#clear();
      this.showError(error);
      this.#failures += 1;
      this.#again = setTimeout(() => this.#load(), Math.min(1000 * 2 ** this.#failures, LONGEST_PAUSE));
    }
    this.#isLoading = false;
    if (this.#isRequested) this.#load();
  }

  async #loadProgress(me) {
    if (!me) return NOTHING;
    try {
      return await this.call("getChallengePlayer", { challenge: this.#id, player: me }, { signed: true });
    } catch (error) {
      if (error.status !== 401) throw error;
      this.emit("unauthorized", { message: error.message });
      return NOTHING;
    }
  }

  // -- write -------------------------------------------------------------------------------------------

  async #send(event) {
    event.preventDefault();
    if (this.#isSending) return;
    const { path, guest = "" } = Object.fromEntries(new FormData(this.#form));
    this.guestName = guest;
    this.#isSending = true;
    this.#message.textContent = "";
    this.#show();
    let pause = 0, said;
    try {
      const made = await this.call("postChallengePath", { challenge: this.#id, path }, { signed: true });
      this.#answer.value = "";
      said = made.status === 201 ? this.#text.correct(made.path) : this.#text.again;
      this.#mine = await this.#loadProgress(await this.visitor());
      this.emit("found", made);
    } catch (error) {
      if (error.status === 401) this.emit("unauthorized", { message: error.message });
      if (error.code === "SlowDown") pause = 1000 * (error.retryAfter || 6);
      said = error.code === "InvalidPath" ? this.#text.wrong(path) : error.status ? error.message : this.words.noResponse;
    }
    this.#me = await this.visitor(); // a guest is signed in by the first answer
    this.#message.textContent = said;
    const resume = () => {
      this.#isSending = false;
      if (this.#challenge) this.#show();
    };
    if (pause) setTimeout(resume, pause);
    else resume();
  }

  // -- show --------------------------------------------------------------------------------------------

  #show() {
    const { title, limit, opens, closes } = this.#challenge, now = Date.now(), text = this.#text;
    const date = new Intl.DateTimeFormat(this.pageLanguage, { dateStyle: "long", timeStyle: "short" });
    const [isEarly, isOver] = [Date.parse(opens) > now, Date.parse(closes) <= now];
    const canPlay = Boolean(this.#me) || this.isGuest;
    this.#title.textContent = title;
    this.#standing.textContent = isEarly ? text.opens(date.format(Date.parse(opens)))
      : isOver ? text.closed(date.format(Date.parse(closes)))
      : text.progress(this.#mine.found, limit);
    [this.#progress.max, this.#progress.value] = [limit, this.#mine.found];
    this.#form.hidden = !canPlay || isEarly || isOver || this.#mine.found >= limit;
    this.#slot.hidden = canPlay;
    this.#submit.ariaDisabled = String(this.#isSending); // a disabled button would lose the focus
    this.#submit.textContent = this.#isSending ? text.wait : text.submit;
    if (this.#me || !this.isGuest) this.#name.replaceChildren();
    else if (!this.#name.childElementCount) this.#name.append(nameField(this.words));
    this.#name.hidden = !this.#name.childElementCount;
    this.#found.replaceChildren(...this.#mine.paths.map((path) => make("li", {}, path)));
    this.#body.hidden = false;
    clearTimeout(this.#change); // the form changes when the challenge opens or closes
    const next = [opens, closes].map((time) => Date.parse(time) - now).find((left) => left > 0);
    if (next < LONGEST_TIMER) this.#change = setTimeout(() => this.#challenge && this.#show(), next + 50);
  }

  #showStatistics({ players, paths, reached }) {
    const text = this.#text, most = Math.max(1, ...Object.values(reached));
    this.#facts.textContent = players ? text.facts(players, paths) : text.none;
    this.#reached.hidden = !players;
    this.#reached.replaceChildren(...Object.entries(reached).map(([number, count]) => {
      const label = text.reached(Number(number), count);
      const bar = make("li", { title: label, className: Number(number) === this.#mine.found ? "mine" : "" }, make("span", { className: "hidden" }, label));
      bar.style.setProperty("--share", count / most);
      return bar;
    }));
    this.emit("update", { players, paths });
  }

  #showLeaders(items) {
    const count = new Intl.NumberFormat(this.pageLanguage);
    this.#leaders.hidden = !items.length;
    this.#rows.replaceChildren(...items.map(({ rank, player, name, found }) => {
      const isMine = player === this.#me;
      const row = make("tr", { part: isMine ? "row mine" : "row", className: isMine ? "mine" : "" },
        make("td", { className: "number" }, count.format(rank)),
        make("td", {}, name ?? player, ...(isMine ? [make("span", { className: "quiet" }, ` (${this.words.you})`)] : [])),
        make("td", { className: "number" }, count.format(found)));
      if (isMine) row.ariaCurrent = "true";
      return row;
    }));
  }
}

function column(name, className = "") {
  return make("th", { scope: "col", className }, name);
}

const STYLE = `
.body { display: grid; gap: 10px; margin-top: 8px; }
.body > * { min-width: 0; }
[part=standing] { font-weight: 600; }
progress { width: 100%; height: 8px; accent-color: var(--h-accent); }
form { align-items: end; }
label { display: grid; gap: 2px; color: var(--h-quiet); font-size: 13px; }
[part=message]:empty, [part=found]:empty { display: none; }
[part=found] { display: flex; flex-wrap: wrap; gap: 6px; }
[part=found] li { padding: 2px 10px; border-radius: 999px; background: var(--h-tint); }
[part=statistics] { display: flex; align-items: end; gap: 2px; height: 64px; border-bottom: 1px solid var(--h-line); }
[part=statistics] li { flex: 1; position: relative; height: calc(100% * var(--share)); min-height: 1px; background: var(--h-edge); border-radius: 2px 2px 0 0; }
[part=statistics] li.mine { background: var(--h-accent); }
`;

customElements.define("hubbub-challenge", Challenge);
