// <hubbub-leaderboard board="race" guest>: the top of a leaderboard, the rank of a player or of the visitor, and on
// request a form for a score and the distribution of all scores.

import { make, onSubmit, write } from "../lib/dom.js";
import { column, newKey, row, Widget } from "./element.js";

const AROUND = 5; // entries: the player and two on each side
const MOST = 100; // entries in one call
const PUSHED = 10; // entries of a push
const SOON = 6000; // ms, after which no cache has a season that has ended
const LONGEST_TIMER = 2 ** 31 - 1; // ms, of setTimeout

class Leaderboard extends Widget {
  static observedAttributes = ["api", "socket", "board", "player", "limit", "submit", "distribution", "token", "guest", "lang"];
  static words = { en: () => import("../words-en/leaderboard.js"), de: () => import("../words-de/leaderboard.js") };
  static every = 5000;
  static topic = (widget) => `leaderboard:${widget.#name}`;
  #board = null; #items = []; #me = ""; #shown = 0; #cursor = null; #key = ""; #isSending = false; #submitted = null;
  #histogram = null; #change = 0;
  #title = make("h3", { part: "title" });
  #facts = make("p", { part: "facts", className: "quiet" });
  #standing = make("p", { part: "standing", ariaLive: "polite" });
  #label = make("span");
  #value = make("input", { name: "value", type: "number", inputMode: "decimal", required: true });
  #nameBox = make("span", { className: "grow" });
  #submit = make("button", { className: "primary" });
  #form = make("form", { part: "form", className: "row" },
    make("label", { className: "grow" }, this.#label, this.#value), this.#nameBox, this.#submit);
  #signIn = make("p", { className: "quiet" });
  #slot = make("slot", { name: "sign-in" }, this.#signIn);
  #message = make("p", { part: "message", role: "status" });
  #head = make("tr");
  #body = make("tbody");
  #table = make("table", { part: "table" }, make("thead", {}, this.#head), this.#body);
  #more = make("button", { type: "button", part: "more", onclick: () => this.#showMore() });
  #plot = make("div", { className: "plot low" });
  #keys = [make("span", { className: "key" }), make("span", { className: "key accent" })];
  #figure = make("figure", { part: "distribution" }, this.#plot, make("figcaption", {}, ...this.#keys, make("span", { className: "readout" })));

  constructor() {
    super(STYLE);
    onSubmit(this.#form, () => this.#send());
    this.root.append(this.#title, this.#facts, this.#standing, this.#form, this.#slot, this.#message, this.stateLine, this.#table, this.#more, this.#figure);
    this.clear();
  }

  get #name() { return this.getAttribute("board") ?? ""; }
  get #limit() { return Math.min(MOST, Math.max(1, Number(this.getAttribute("limit")) || 10)); }
  get rows() { return this.#limit + (this.hasAttribute("distribution") ? 9 : 0) + (this.hasAttribute("submit") ? 2 : 0); }
  get missing() { return this.text.missing(this.#name); }

  begin() {
    const { text, words } = this;
    [this.#submit.textContent, this.#more.textContent, this.#signIn.textContent] = [text.submit, words.more, text.signIn];
    [this.#keys[0].textContent, this.#keys[1].textContent] = [text.perRange, words.you];
    this.#nameBox.replaceChildren(...(this.isGuest ? [this.nameField()] : []));
    this.#nameBox.hidden = !this.isGuest;
  }

  /** Remove what was shown of another leaderboard, or of one that no longer exists. */
  clear() {
    [this.#board, this.#shown, this.#key, this.#submitted] = [null, 0, newKey(), null];
    for (const part of [this.#title, this.#facts, this.#standing, this.#message, this.#body]) part.replaceChildren();
    for (const part of [this.#table, this.#more, this.#form, this.#slot, this.#figure]) part.hidden = true;
  }

  end() { clearTimeout(this.#change); }

  // -- read --------------------------------------------------------------------------------------------

  async read() {
    const board = this.#name, me = this.getAttribute("player") || (await this.visitor());
    const limit = Math.min(MOST, Math.max(this.#limit, this.#shown)), submitted = this.#submitted;
    this.#submitted = null;
    const [definition, entries, standing, distribution] = await Promise.all([
      this.call("GET leaderboards/{board}", { board }),
      this.call("GET leaderboards/{board}/entries", { board, limit }),
      submitted?.player === me ? submitted : me && this.call("GET leaderboards/{board}/players/{player}", { board, player: me }).catch(nullIfNotFound),
      this.hasAttribute("distribution") && this.call("GET leaderboards/{board}/distribution", { board }),
    ]);
    if (distribution) this.#histogram ??= new (await import("../lib/histogram.js")).Histogram();
    const isListed = entries.items.some((entry) => entry.player === me);
    const near = standing && !isListed
      ? await this.call("GET leaderboards/{board}/entries", { board, around: me, limit: AROUND }).catch(nullIfNotFound)
      : null;
    return () => {
      [this.#board, this.#me, this.#cursor] = [definition, me, entries.cursor];
      this.#showForm();
      this.#show(entries.items, standing, near?.items ?? []);
      if (distribution) this.#showDistribution(distribution.items, standing);
    };
  }

  /** Show the first entries of a push if they are all that the widget shows. Otherwise load again. */
  changed(value, isFirst) {
    if (isFirst && JSON.stringify(value.items.slice(0, this.#limit)) === JSON.stringify(this.#items.slice(0, PUSHED))) return;
    const isAll = !this.#me && !this.#shown && this.#limit <= PUSHED && !this.hasAttribute("distribution");
    if (!isAll || value.season !== this.#board?.season) return this.loadSoon();
    this.#board.players = value.players;
    this.#show(value.items.slice(0, this.#limit), null, []);
  }

  async #showMore() {
    try {
      const page = await this.call("GET leaderboards/{board}/entries", { board: this.#name, limit: this.#limit, cursor: this.#cursor });
      this.#cursor = page.cursor;
      this.#body.querySelectorAll(".gap, .gap ~ tr").forEach((line) => line.remove());
      const there = new Set([...this.#body.rows].map(({ dataset }) => dataset.player));
      this.#append(page.items.filter(({ player }) => !there.has(player)));
      this.#shown = this.#body.rows.length;
      this.#more.hidden = !this.#cursor || this.#shown >= MOST;
    } catch (error) {
      this.#message.textContent = this.explain(error);
    }
  }

  // -- write -------------------------------------------------------------------------------------------

  async #send() {
    if (this.#isSending) return;
    this.#isSending = true;
    try {
      const args = { board: this.#name, id: this.#key, value: Number(this.#value.value), standing: true };
      const result = await this.call("POST leaderboards/{board}/scores?standing", args, { signed: true }), { score } = result;
      this.#submitted = result.rank ? result : null; // includes the score, which the stream may not have counted yet
      this.#value.value = "";
      this.#key = newKey(); // the same for each retry of a score
      this.#message.textContent = this.text.submitted(this.#points(score));
      this.emit("scored", { score });
      this.load();
    } catch (error) {
      this.#message.textContent = this.explain(error);
    }
    this.#isSending = false;
  }

  // -- show --------------------------------------------------------------------------------------------

  #points(score) { return this.formats.decimal(score, this.#board.decimals); }

  #showForm() {
    const { operator, unit, min, max, decimals, submit, guests } = this.#board, { text } = this;
    const hasForm = this.hasAttribute("submit") && submit !== "server", mayPlay = this.isGuest ? guests : Boolean(this.#me);
    this.#form.hidden = !hasForm || !mayPlay;
    this.#slot.hidden = !hasForm || mayPlay;
    this.#label.textContent = `${operator === "increment" ? text.pointsToAdd : text.yourScore}${unit ? ` (${unit})` : ""}`;
    Object.assign(this.#value, { min, max, step: (10 ** -decimals).toFixed(decimals) });
  }

  #show(items, standing, near) {
    const { title, unit, players, ends } = this.#board, { words, text, formats } = this;
    this.#title.textContent = title;
    this.#facts.textContent = [words.players(players), ...(ends ? [text.until(formats.opening(ends))] : [])].join(" · ");
    clearTimeout(this.#change); // the next season begins without a push
    const left = Math.max(SOON, Date.parse(ends) - Date.now() + SOON);
    if (left < LONGEST_TIMER) this.#change = setTimeout(() => this.load(), left);
    this.#head.replaceChildren(column(words.rank, "number"), column(words.player), column(unit || words.score, "number"));
    write(this.#standing, this.#me ? this.#standingText(standing) : "");
    const shown = new Set(items.map((entry) => entry.player)), before = new Map([...this.#body.rows].map((line) => [line.dataset.player, line.textContent]));
    this.#items = items;
    this.#body.replaceChildren();
    this.#append(items);
    if (near.length) this.#body.append(make("tr", { part: "gap", className: "gap" }, make("td", { colSpan: 3 }, "…")));
    this.#append(near.filter((entry) => !shown.has(entry.player)));
    for (const line of this.#body.rows) line.classList.toggle("changed", before.size > 0 && before.get(line.dataset.player) !== line.textContent);
    this.#table.hidden = !items.length;
    this.#more.hidden = !this.#cursor || items.length >= MOST;
    this.setState(items.length ? "ready" : "empty", items.length ? "" : text.none);
    this.emit("update", { players, items });
  }

  #append(items) {
    this.#body.append(...items.map((entry) => row(entry, this.#points(entry.score), this.#me, this)));
  }

  #standingText(standing) {
    const { text } = this;
    if (!standing) return text.noScore;
    const unit = this.#board.unit ? ` ${this.#board.unit}` : "";
    const next = standing.toNext === null ? "" : text.toNext(`${this.#points(standing.toNext)}${unit}`);
    return `${text.standing(standing.rank, standing.of)}${next}.`;
  }

  #showDistribution(buckets, standing) {
    const { text, words, formats } = this;
    this.#figure.hidden = !buckets.length;
    this.#keys[1].hidden = !standing;
    if (buckets.length) this.#histogram.showScores(this.#plot, buckets, { unit: this.#board.unit, score: standing?.score, text, words, formats });
  }
}

function nullIfNotFound(error) {
  if (error.status === 404) return null;
  throw error;
}

const STYLE = `
.root { min-height: calc(var(--rows) * 33px + 120px); }
@media (max-width: 600px) { :host([submit]) .root { min-height: calc(var(--rows) * 33px + 216px); } }
[part=standing] { font-weight: 600; }
[part=more] { justify-self: start; }
.gap td { padding: 0; text-align: center; color: var(--h-quiet); }
`;

customElements.define("hubbub-leaderboard", Leaderboard);
