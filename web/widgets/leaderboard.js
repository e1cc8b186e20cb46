// <hubbub-leaderboard board="race" player="R1301">: the top of a leaderboard, and the rank of a player.

import { make } from "../lib/dom.js";
import { Widget } from "./element.js";
import { follow } from "./live.js";

const POLL_INTERVAL = 5000; // ms between two loads without a socket
const MIN_INTERVAL = 2000; // ms between two loads, however many updates are pushed
const LONGEST_PAUSE = 60_000;
const AROUND = 5; // entries: the player and two on each side

class Leaderboard extends Widget {
  static observedAttributes = ["api", "socket", "board", "player", "limit", "lang"];
  #board; #stop; #turn = 0; #again = 0; #failures = 0; #loadedAt = 0; #isLoading = false; #isRequested = false;
  #title = make("h3", { part: "title" });
  #facts = make("p", { part: "facts", className: "quiet" });
  #standing = make("p", { part: "standing", ariaLive: "polite" });
  #body = make("tbody");
  #rank = make("th", { scope: "col", className: "number" });
  #playerTitle = make("th", { scope: "col" });
  #score = make("th", { scope: "col", className: "number" });
  #table;

  constructor() {
    super(STYLE);
    const head = make("tr", {}, this.#rank, this.#playerTitle, this.#score);
    this.#table = make("table", { part: "table", hidden: true }, make("thead", {}, head), this.#body);
    this.shadowRoot.append(this.#title, this.#facts, this.#standing, this.stateLine, this.#table);
  }

  get #name() { return this.getAttribute("board") ?? ""; }
  get #player() { return this.getAttribute("player") ?? ""; }
  get #limit() { return Math.min(100, Math.max(1, Number(this.getAttribute("limit")) || 10)); }

  begin() {
    this.#clear();
    this.setState("loading", this.words.loading);
    this.#load();
    this.#stop = follow({
      hub: this.hub,
      topic: `leaderboard:${this.#name}`,
      every: POLL_INTERVAL,
      changed: (value) => this.#changed(value),
    });
  }

  end() {
    this.#stop?.();
    clearTimeout(this.#again);
    this.#turn += 1;
    [this.#isLoading, this.#isRequested] = [false, false];
  }

  /** Remove what was shown of another leaderboard, or of one that no longer exists. */
  #clear() {
    this.#board = null;
    for (const part of [this.#title, this.#facts, this.#standing, this.#body]) part.replaceChildren();
    this.#table.hidden = true;
  }

  /** Show the first ten entries of a push if that is all the widget shows. Otherwise load again. */
  #changed(value) {
    if (!value) return this.#failures || this.#load();
    if (this.#player || this.#limit > 10 || !this.#board || value.season !== this.#board.season) return this.#loadSoon();
    this.#board.players = value.players;
    this.#show(value.items.slice(0, this.#limit), null, []);
  }

  /** Load once for several pushes: a busy leaderboard has two each second. */
  #loadSoon() {
    clearTimeout(this.#again);
    this.#again = setTimeout(() => this.#load(), Math.max(0, this.#loadedAt + MIN_INTERVAL - Date.now()));
  }

  /** Load everything that is shown. Calls during a load cause one further load after it. */
  async #load() {
    if (this.#isLoading) {
      this.#isRequested = true;
      return;
    }
    const turn = this.#turn;
    clearTimeout(this.#again);
    [this.#isLoading, this.#isRequested, this.#loadedAt] = [true, false, Date.now()];
    try {
      const [board, entries, standing] = await Promise.all([
        this.call("getBoard", { board: this.#name }),
        this.call("getEntries", { board: this.#name, limit: this.#limit }),
        this.#player && this.call("getPlayer", { board: this.#name, player: this.#player }).catch(nullIfNotFound),
      ]);
      const isListed = entries.items.some((entry) => entry.player === this.#player);
      const near = standing && !isListed
        ? await this.call("getEntries", { board: this.#name, around: this.#player, limit: AROUND }).catch(nullIfNotFound)
        : null;
      if (turn !== this.#turn) return;
      this.#board = board;
      this.#failures = 0;
      this.#show(entries.items, standing, near?.items ?? []);
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

  #show(items, standing, near) {
    const { title, unit, decimals, players } = this.#board;
    const { pageLanguage: language, words } = this, text = words.leaderboard;
    const count = new Intl.NumberFormat(language);
    const exact = new Intl.NumberFormat(language, { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
    this.#title.textContent = title;
    this.#facts.textContent = words.players(players);
    [this.#rank.textContent, this.#playerTitle.textContent, this.#score.textContent] = [words.rank, words.player, unit || text.score];
    this.#standing.hidden = !this.#player;
    if (this.#player) write(this.#standing, standingText(standing, exact, unit, text));
    const shown = new Set(items.map((entry) => entry.player));
    const rows = [...items, ...(near.length ? [null] : []), ...near.filter((entry) => !shown.has(entry.player))];
    const before = new Map([...this.#body.rows].map((row) => [row.dataset.player, row.textContent]));
    this.#body.replaceChildren(...rows.map((entry) => (entry ? this.#row(entry, count, exact, before) : gap())));
    this.#table.hidden = !items.length;
    this.setState(items.length ? "ready" : "empty", items.length ? "" : text.none);
    this.emit("update", { players, items });
  }

  #row(entry, count, exact, before) {
    const isMine = entry.player === this.#player;
    const row = make(
      "tr",
      { part: isMine ? "row mine" : "row", className: isMine ? "mine" : "" },
      make("td", { className: "number" }, count.format(entry.rank)),
      make("td", {}, entry.name ?? entry.player, ...(isMine ? [make("span", { className: "quiet" }, ` (${this.words.you})`)] : [])),
      make("td", { className: "number" }, exact.format(entry.score)),
    );
    row.dataset.player = entry.player;
    if (isMine) row.ariaCurrent = "true";
    if (before.size && before.get(entry.player) !== row.textContent) row.classList.add("changed");
    return row;
  }
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function gap() {
  return make("tr", { part: "gap" }, make("td", { colSpan: 3, className: "gap" }, "…"));
}

function nullIfNotFound(error) {
  if (error.status === 404) return null;
  throw error;
}

function standingText(standing, exact, unit, text) {
  if (!standing) return text.noScore;
  const next = standing.toNext === null ? "" : text.toNext(`${exact.format(standing.toNext)}${unit ? ` ${unit}` : ""}`);
  return `${text.standing(standing.rank, standing.of)}${next}.`;
}

const STYLE = `
table { width: 100%; margin-top: 8px; border-collapse: collapse; }
th { padding: 4px 8px; color: var(--h-quiet); font-size: 13px; font-weight: 400; text-align: left; }
td { padding: 5px 8px; border-top: 1px solid var(--h-line); }
.number { width: 1%; text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.gap { text-align: center; color: var(--h-quiet); padding: 0; }
.mine { background: var(--h-tint); font-weight: 600; }
[part=standing] { margin-top: 8px; font-weight: 600; }
`;

customElements.define("hubbub-leaderboard", Leaderboard);
