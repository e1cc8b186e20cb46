// A leaderboard: where you stand, who is around you, any place, and how the scores are spread.

import { part } from "./config.js";
import { chooser, fields, nothingYet, Panel, remember } from "./panel.js";
import { Bars } from "./plots.js";
import { you } from "./session.js";
import { html, nothing, repeat } from "./vendor/lit.js";
import { count, ordinal, plural, points } from "./words.js";

const ENTRIES = 10;
const MOST_ENTRIES = 100; // in one call
const MOST_BARS = 40;

let name = "", board = null, standing = null, entries = [], cursor = null, buckets = [];
let from = { way: "top" }; // or around you, or from a place
let shown = ENTRIES;
const bars = new Bars(150);

const panel = new Panel("leaderboard", {
  load,
  template,
  about: { script: "board.js", module: "chalicelib/leaderboards/scores.py", documented: "leaderboards" },
});

export function start() {
  show(remember("board") || "demo");
}

/** Your name has changed. */
export const refresh = () => panel.refresh();

function show(text) {
  name = text.trim();
  remember("board", name);
  [board, standing, entries, cursor, buckets, from] = [null, null, [], null, [], { way: "top" }];
  shown = ENTRIES;
  panel.restart(`leaderboard:${name}`, changed);
}

const path = (rest = "") => `/leaderboards/${part(name)}${rest}`;

async function load() {
  const of = name;
  const { calls } = panel;
  const found = await calls.get(path());
  const [mine, spread] = await Promise.all([findMe(), calls.get(path("/distribution"))]);
  if (of !== name) return;
  [board, standing, buckets] = [found, mine, spread.items];
  await list();
}

async function findMe() {
  if (!you()) return null;
  try {
    return await panel.calls.get(path(`/players/${part(you())}`));
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

// A cursor is good for the query that it came from alone.
const query = () => (from.way === "around" ? { around: you() } : { place: from.place });

async function list() {
  const [asked, length] = [from, shown];
  const answer = await panel.calls.get(path("/entries"), { ...query(), limit: Math.min(length, MOST_ENTRIES) });
  if (asked === from && length === shown) [entries, cursor] = [answer.items, answer.cursor];
}

/** A push has the first ten; the rest follows from them only by asking. */
function changed(value) {
  if (from.way === "top" && shown === ENTRIES) entries = value.items;
  if (board) board.players = value.players;
  panel.draw();
  panel.refreshSoon();
}

const look = (way, place) => panel.act(async () => {
  [from, shown] = [{ way, place }, ENTRIES];
  await list();
});

const more = () => panel.act(async () => {
  const next = await panel.calls.get(path("/entries"), { ...query(), limit: ENTRIES, cursor });
  entries = [...entries, ...next.items];
  shown = entries.length;
  cursor = next.cursor;
});

function submit(event) {
  const value = Number(fields(event).value);
  return panel.act(async () => {
    const id = `page-${Date.now()}`; // counts once, however often it is sent
    const { body } = await panel.calls.ask("POST", path("/scores"), { body: { id, value } });
    panel.refresh();
    return `Your score is ${points(body.score)}.`;
  });
}

// -- what is shown -------------------------------------------------------------------------------------

function template() {
  return html`
    ${chooser("Leaderboard", name, show)}
    ${board ? filled() : empty()}`;
}

function empty() {
  const how = html`An admin makes one: <code>PUT /leaderboards/${name}</code>`;
  return nothingYet(`There is no leaderboard ${name} yet.`, how);
}

function filled() {
  queueMicrotask(plot);
  return html`
    <h3>${board.title} <span class="quiet">${plural(board.players, "player")}</span></h3>
    <div class="two">
      <div class="detail">
        ${where()}
        <form class="row" @submit=${submit}>
          <label class="grow">Your ${board.operator === "increment" ? "points" : "score"}
            ${board.unit ? `in ${board.unit}` : ""}
            <input name="value" type="number" min=${board.min} max=${board.max} step=${10 ** -board.decimals}
              inputmode="decimal" required ?disabled=${!you()}>
          </label>
          <button class="primary" ?disabled=${!you()}>Submit</button>
        </form>
        ${you() ? nothing : html`<p class="quiet">To play, say who you are (above).</p>`}
        <figure ?hidden=${!buckets.length}>
          <div class="plot" id="distribution"></div>
          <figcaption><span class="key">players by score</span>
            ${standing ? html`<span class="key accent">you</span>` : nothing}<span class="readout"></span></figcaption>
        </figure>
      </div>
      <div>
        <div class="row views-of" role="group" aria-label="Part of the leaderboard">
          <button type="button" aria-pressed=${from.way === "top"} @click=${() => look("top")}>Top</button>
          <button type="button" aria-pressed=${from.way === "around"} ?disabled=${!standing}
            @click=${() => look("around")}>Around you</button>
          <form class="jump" @submit=${(event) => look("place", Number(fields(event).place))}>
            <label><span class="hidden">Place to jump to</span>
              <input name="place" type="number" min="1" max=${Math.max(board.players, 1)} placeholder="Place"
                required></label>
            <button aria-label="Jump to this place">Go</button>
          </form>
        </div>
        ${entries.length ? table() : html`<p class="quiet">Nobody is here yet. Be the first.</p>`}
        ${cursor ? html`<button type="button" class="more" @click=${more}>More</button>` : nothing}
      </div>
    </div>`;
}

function where() {
  if (!standing) return html`<p class="standing">You are not on this board yet.</p>`;
  const { rank, of, percentile, toNext } = standing;
  return html`<p class="standing"><strong id="rank">${ordinal(rank)}</strong> of ${count.format(of)}
    <span class="quiet">No better than you: ${percentile} %.
    ${toNext === null ? "You lead." : html`To the next: ${points(toNext)} ${board.unit}.`}</span></p>`;
}

function table() {
  return html`<table class="entries"><caption class="hidden">Players, best first</caption>
    <thead class="hidden"><tr><th scope="col">Rank</th><th scope="col">Player</th><th scope="col">Score</th></tr></thead>
    <tbody>${repeat(entries, ({ player }) => player, ({ rank, player, score }) => html`
      <tr aria-current=${player === you() ? "true" : nothing}>
        <td class="rank">${count.format(rank)}</td><td class="player">${player}</td>
        <td class="number">${points(score)}</td></tr>`)}</tbody></table>`;
}

/** Draw the distribution, neighbours merged where there are many ranges. */
function plot() {
  const host = document.getElementById("distribution");
  if (!host || !buckets.length) return;
  const size = Math.ceil(buckets.length / MOST_BARS);
  const merged = Array.from({ length: Math.ceil(buckets.length / size) }, (_, i) => {
    const some = buckets.slice(i * size, (i + 1) * size);
    return { from: some[0].from, to: some.at(-1).to, players: some.reduce((sum, one) => sum + one.players, 0) };
  });
  bars.show(host, {
    series: [{ values: merged.map(({ players }) => players), colour: "--views", width: 0.86 }],
    marked: standing ? merged.findIndex(({ from: low, to }) => low <= standing.score && standing.score <= to) : -1,
    tick: (i) => (merged[i] ? points(merged[i].from) : ""),
    describe: (i) => `${points(merged[i].from)} to ${points(merged[i].to)}: ${plural(merged[i].players, "player")}`,
    summary: `Scores from ${points(merged[0].from)} to ${points(merged.at(-1).to)}.`,
  });
}
