// The leaderboard panel: your rank, the players around you, any position, and the distribution of scores.

import { encode } from "../lib/config.js";
import { chooser, fields, emptyState, Panel, remember } from "./panel.js";
import { Bars } from "../lib/plots.js";
import { userName } from "../lib/session.js";
import { html, nothing, repeat } from "../vendor/lit.js";
import { count, ordinal, plural, points } from "../lib/words.js";

const ENTRIES = 10;
const MOST_ENTRIES = 100; // in one call
const MOST_BARS = 40;

let name = "", board = null, standing = null, entries = [], cursor = null, buckets = [];
let from = { way: "top" }; // or "around" you, or "place": from a position on
let shown = ENTRIES;
const bars = new Bars(150);

const panel = new Panel("leaderboard", {
  load,
  template,
  about: { script: "panels/leaderboard.js", module: "chalicelib/leaderboards", documented: "leaderboards" },
});

export function start() {
  show(remember("board") || "demo");
}

/** Load the panel again, after the visitor signed in under another name. */
export const refresh = () => panel.refresh();

function show(text) {
  name = text.trim();
  remember("board", name);
  [board, standing, entries, cursor, buckets, from] = [null, null, [], null, [], { way: "top" }];
  shown = ENTRIES;
  panel.restart(`leaderboard:${name}`, changed);
}

const path = (rest = "") => `/leaderboards/${encode(name)}${rest}`;

async function load() {
  const requested = name;
  const definition = await panel.api.get(path());
  const [found, distribution] = await Promise.all([loadStanding(), panel.api.get(path("/distribution"))]);
  if (requested !== name) return;
  [board, standing, buckets] = [definition, found, distribution.items];
  await loadEntries();
}

async function loadStanding() {
  if (!userName()) return null;
  try {
    return await panel.api.get(path(`/players/${encode(userName())}`));
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

// A cursor is valid only for the query that returned it.
const query = () => (from.way === "around" ? { around: userName() } : { place: from.place });

async function loadEntries() {
  const [requested, length] = [from, shown];
  const page = await panel.api.get(path("/entries"), { ...query(), limit: Math.min(length, MOST_ENTRIES) });
  if (requested === from && length === shown) [entries, cursor] = [page.items, page.cursor];
}

/** Show the first ten entries of a push at once. Everything else is loaded again. */
function changed(value) {
  if (from.way === "top" && shown === ENTRIES) entries = value.items;
  if (board) board.players = value.players;
  panel.draw();
  panel.refreshSoon();
}

const jump = (way, place) => panel.act(async () => {
  [from, shown] = [{ way, place }, ENTRIES];
  await loadEntries();
});

const more = () => panel.act(async () => {
  const next = await panel.api.get(path("/entries"), { ...query(), limit: ENTRIES, cursor });
  entries = [...entries, ...next.items];
  shown = entries.length;
  cursor = next.cursor;
});

function submit(event) {
  const value = Number(fields(event).value);
  return panel.act(async () => {
    const id = `page-${Date.now()}`; // a retry with the same id counts once
    const { body } = await panel.api.request("POST", path("/scores"), { body: { id, value } });
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
  const how = html`An admin creates it with <code>PUT /leaderboards/${name}</code>.`;
  return emptyState(`No leaderboard named ${name} yet.`, how);
}

function filled() {
  queueMicrotask(plot);
  return html`
    <h3>${board.title} <span class="quiet">${plural(board.players, "player")}</span></h3>
    <div class="two">
      <div class="detail">
        ${standingLine()}
        <form class="row" @submit=${submit}>
          <label class="grow">${board.operator === "increment" ? "Points to add" : "Your score"}
            ${board.unit ? `(${board.unit})` : ""}
            <input name="value" type="number" min=${board.min} max=${board.max} step=${10 ** -board.decimals}
              inputmode="decimal" required ?disabled=${!userName()}>
          </label>
          <button class="primary" ?disabled=${!userName()}>Submit</button>
        </form>
        ${userName() ? nothing : html`<p class="quiet">Sign in at the top of the page to submit a score.</p>`}
        <figure ?hidden=${!buckets.length}>
          <div class="plot" id="distribution"></div>
          <figcaption><span class="key">players per score range</span>
            ${standing ? html`<span class="key accent">you</span>` : nothing}<span class="readout"></span></figcaption>
        </figure>
      </div>
      <div>
        <div class="row views-of" role="group" aria-label="Entries to show">
          <button type="button" aria-pressed=${from.way === "top"} @click=${() => jump("top")}>Top</button>
          <button type="button" aria-pressed=${from.way === "around"} ?disabled=${!standing}
            @click=${() => jump("around")}>Around you</button>
          <form class="jump" @submit=${(event) => jump("place", Number(fields(event).place))}>
            <label><span class="hidden">Position to show</span>
              <input name="place" type="number" min="1" max=${Math.max(board.players, 1)} placeholder="Position"
                required></label>
            <button aria-label="Go to this position">Go</button>
          </form>
        </div>
        ${entries.length ? table() : html`<p class="quiet">No scores yet.</p>`}
        ${cursor ? html`<button type="button" class="more" @click=${more}>More</button>` : nothing}
      </div>
    </div>`;
}

function standingLine() {
  if (!standing) return html`<p class="standing">You have no score on this leaderboard yet.</p>`;
  const { rank, of, percentile, toNext } = standing;
  return html`<p class="standing"><strong id="rank">${ordinal(rank)}</strong> of ${count.format(of)}
    <span class="quiet">Your score is at least as good as that of ${percentile} % of players.
    ${toNext === null ? "You are in the lead." : html`${points(toNext)} ${board.unit} to the next rank.`}</span></p>`;
}

function table() {
  return html`<table class="entries"><caption class="hidden">Players, best first</caption>
    <thead class="hidden"><tr><th scope="col">Rank</th><th scope="col">Player</th><th scope="col">Score</th></tr></thead>
    <tbody>${repeat(entries, ({ player }) => player, ({ rank, player, score }) => html`
      <tr aria-current=${player === userName() ? "true" : nothing}>
        <td class="rank">${count.format(rank)}</td><td class="player">${player}</td>
        <td class="number">${points(score)}</td></tr>`)}</tbody></table>`;
}

/** Draw the distribution. Adjacent ranges are merged when there are more than MOST_BARS. */
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
