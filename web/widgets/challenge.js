// <hubbub-challenge challenge="hunt" guest>: submit answers, and see your progress, the leaders and the statistics.

import { Bars, SHEET } from "../lib/chart.js";
import { make, onSubmit } from "../lib/dom.js";
import { column, row, Widget } from "./element.js";

const LONGEST_TIMER = 2 ** 31 - 1; // ms, of setTimeout
const NOTHING = { found: 0, items: [] };
const EVERY = [1, 2, 5, 10, 25, 50, 100]; // labels of the x axis

class Challenge extends Widget {
  static observedAttributes = ["api", "socket", "challenge", "limit", "token", "guest", "lang"];
  static words = { en: () => import("../words-en/challenge.js"), de: () => import("../words-de/challenge.js") };
  static every = 5000;
  static topic = (widget) => `challenge:${widget.#id}`;
  #challenge = null; #mine = NOTHING; #me = ""; #change = 0; #isSending = false;
  #bars = new Bars();
  #title = make("h3", { part: "title" });
  #facts = make("p", { part: "facts", className: "quiet" });
  #standing = make("p", { part: "standing" });
  #progress = make("progress", {});
  #answer = make("input", { name: "path", maxLength: 200, autocomplete: "off", required: true });
  #answerLabel = make("span");
  #submit = make("button", { className: "primary" });
  #name = make("span", { className: "grow" });
  #form = make("form", { part: "form", className: "row" },
    make("label", { className: "grow" }, this.#answerLabel, this.#answer), this.#name, this.#submit);
  #message = make("p", { part: "message", role: "status" });
  #signIn = make("p", { className: "quiet" });
  #slot = make("slot", { name: "sign-in" }, this.#signIn);
  #found = make("ul", { part: "found" });
  #plot = make("div", { className: "plot low" });
  #keys = [make("span", { className: "key" }), make("span", { className: "key accent" })];
  #reached = make("figure", { part: "statistics" }, this.#plot, make("figcaption", {}, ...this.#keys, make("span", { className: "readout" })));
  #caption = make("caption");
  #head = make("tr");
  #rows = make("tbody");
  #leaders = make("table", { part: "leaders" }, this.#caption, make("thead", {}, this.#head), this.#rows);
  #body = make("div", { className: "body" }, this.#standing, this.#progress, this.#form, this.#slot, this.#message,
    this.#found, this.#leaders, this.#reached);

  constructor() {
    super(STYLE, SHEET);
    onSubmit(this.#form, () => this.#send());
    this.root.append(this.#title, this.#facts, this.stateLine, this.#body);
    this.clear();
  }

  get #id() { return this.getAttribute("challenge") ?? ""; }
  get #limit() { return Math.min(100, Math.max(0, Number(this.getAttribute("limit") ?? 5) || 0)); }
  get rows() { return this.#limit; }
  get missing() { return this.text.missing(this.#id); }

  begin() {
    const { words, text } = this;
    [this.#answerLabel.textContent, this.#signIn.textContent, this.#caption.textContent] = [text.answer, text.signIn, text.leaders];
    [this.#progress.ariaLabel, this.#found.ariaLabel] = [text.progressLabel, text.found];
    [this.#keys[0].textContent, this.#keys[1].textContent] = [text.atLeast, words.you];
    this.#head.replaceChildren(column(words.rank, "number"), column(words.player), column(text.answers, "number"));
    this.#name.replaceChildren(...(this.isGuest ? [this.nameField()] : []));
    this.#name.hidden = !this.isGuest;
  }

  end() { clearTimeout(this.#change); }

  /** Remove what was shown of another challenge, or of one that no longer exists. */
  clear() {
    [this.#challenge, this.#mine] = [null, NOTHING];
    for (const part of [this.#title, this.#facts, this.#message]) part.replaceChildren();
    this.#body.hidden = true;
  }

  // -- read --------------------------------------------------------------------------------------------

  async read() {
    const named = { challenge: this.#id }, me = await this.visitor();
    const challenge = this.#challenge ?? (await this.call("GET challenges/{challenge}", named));
    const [statistics, leaders, mine] = await Promise.all([
      this.call("GET challenges/{challenge}/statistics", named),
      challenge.ranked && this.#limit ? this.call("GET challenges/{challenge}/leaders", { ...named, limit: this.#limit }) : { items: [] },
      this.#readProgress(me),
    ]);
    return () => {
      [this.#challenge, this.#me, this.#mine] = [challenge, me, mine];
      this.#show();
      this.#showStatistics(statistics);
      this.#showLeaders(leaders.items);
      this.setState("ready");
    };
  }

  changed(statistics, isFirst) {
    const before = this.#facts.textContent;
    if (this.#challenge) this.#showStatistics(statistics);
    if (!isFirst || this.#facts.textContent !== before) this.loadSoon(); // for the leaders
  }

  async #readProgress(me) {
    if (!me) return NOTHING;
    try {
      return await this.call("GET challenges/{challenge}/players/{player}", { challenge: this.#id, player: me }, { signed: true });
    } catch (error) {
      if (error.status === 401) return NOTHING;
      throw error;
    }
  }

  // -- write -------------------------------------------------------------------------------------------

  async #send() {
    if (this.#isSending) return;
    const path = this.#answer.value, { text } = this;
    this.#isSending = true;
    this.#message.textContent = "";
    this.#show();
    let pause = 0, said;
    try {
      const made = await this.call("POST challenges/{challenge}/paths", { challenge: this.#id, path }, { signed: true });
      this.#answer.value = "";
      said = made.status === 201 ? text.correct(made.path) : text.again;
      this.#mine = await this.#readProgress(await this.visitor());
      this.emit("found", made);
    } catch (error) {
      if (error.code === "SlowDown") pause = 1000 * (error.retryAfter || 6);
      said = error.code === "InvalidPath" ? text.wrong(path) : this.explain(error);
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
    const { title, limit, opens, closes, guests } = this.#challenge, { text, words, formats } = this, now = Date.now();
    const [isEarly, isOver] = [Date.parse(opens) > now, Date.parse(closes) <= now];
    const mayPlay = this.isGuest ? guests : Boolean(this.#me);
    this.#title.textContent = title;
    this.#standing.textContent = isEarly ? text.opens(formats.opening(opens))
      : isOver ? text.closed(formats.opening(closes))
      : text.progress(this.#mine.found, limit);
    [this.#progress.max, this.#progress.value] = [limit, this.#mine.found];
    this.#form.hidden = !mayPlay || isEarly || isOver || this.#mine.found >= limit;
    this.#slot.hidden = mayPlay || isEarly || isOver;
    this.#progress.hidden = (isEarly || isOver) && !this.#mine.found;
    this.#submit.ariaDisabled = String(this.#isSending); // a disabled button would lose the focus
    this.#submit.textContent = this.#isSending ? words.wait : text.submit;
    this.#found.replaceChildren(...this.#mine.items.map(({ path, players, first }) =>
      make("li", {}, make("bdi", {}, path), make("span", { className: "quiet" }, ` · ${text.finders(players, first)}`))));
    this.#body.hidden = false;
    clearTimeout(this.#change); // the form changes when the challenge opens or closes
    const next = [opens, closes].map((time) => Date.parse(time) - now).find((left) => left > 0);
    if (next < LONGEST_TIMER) this.#change = setTimeout(() => this.#challenge && this.#show(), next + 50);
  }

  #showStatistics({ players, paths, reached, exactly }) {
    const { text, words, formats } = this, values = Object.values(reached);
    this.#facts.textContent = players ? text.facts(players, paths) : text.none;
    this.#reached.hidden = !players;
    this.#keys[1].hidden = !this.#mine.found;
    if (players) this.#bars.show(this.#plot, {
      series: [{ values, className: "views", width: 0.8 }],
      marked: this.#mine.found - 1,
      ticks: (width) => {
        const every = EVERY.find((step) => step * (width / values.length) >= 36) ?? values.length;
        return values.flatMap((_, i) => ((i + 1) % every ? [] : [{ at: i, text: formats.count(i + 1) }]));
      },
      short: formats.short,
      xTitle: text.answersFound,
      yTitle: words.playersAxis,
      describe: (i) => text.reached(i + 1, values[i] ?? 0, exactly[i + 1] ?? 0),
      summary: text.foundAll(values.at(-1), values.length),
      hint: words.chartHint,
    });
    this.emit("update", { players, paths });
  }

  #showLeaders(items) {
    this.#leaders.hidden = !items.length;
    this.#rows.replaceChildren(...items.map((entry) => row(entry, this.formats.count(entry.found), this.#me, this)));
  }
}

const STYLE = `
.root { min-height: calc(var(--rows) * 33px + 480px); }
@media (max-width: 600px) { .root { min-height: calc(var(--rows) * 33px + 630px); } }
.body { display: grid; grid-template-columns: minmax(0, 1fr); gap: 10px; }
[part=standing] { font-weight: 600; }
progress { width: 100%; height: 8px; accent-color: var(--h-accent); }
[part=found]:empty { display: none; }
[part=found] { display: flex; flex-wrap: wrap; gap: 6px; }
[part=found] li { padding: 2px 10px; border-radius: 14px; background: var(--h-tint); }
`;

customElements.define("hubbub-challenge", Challenge);
