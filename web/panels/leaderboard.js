// The leaderboard panel: your rank, the players around you, any position, and the distribution of scores.

import { api } from "../lib/config.js";
import { histogram } from "../lib/histogram.js";
import { count, points } from "../lib/language.js";
import { Bars } from "../lib/plots.js";
import { userId } from "../lib/session.js";
import { words } from "../lib/words.js";
import { chooser, fields, emptyState, Panel, remember } from "./panel.js";
import { html, nothing, repeat } from "../vendor/lit.js";

const ENTRIES = 10;
const MOST_ENTRIES = 100; // in one call
const text = words.leaderboard;

let name = "", board = null, standing = null, entries = [], cursor = null, buckets = [];
let from = { way: "top" }; // or "around" you, or "place": from a position on
let shown = ENTRIES;
const bars = new Bars();

const panel = new Panel("leaderboard", {
  load,
  template,
  lines: () => `<script type="module"
  src="${api}web/widgets/leaderboard.js"></script>
<hubbub-leaderboard board="${name}"
  player="${userId() || "ana"}" limit="5">
</hubbub-leaderboard>`,
  tools: () => chooser(text.title, name, show),
  about: { script: "panels/leaderboard.js", module: "chalicelib/leaderboards", documented: "leaderboards" },
});

export function start() {
  show(remember("board") || "demo");
}

/** Load the panel again, after the visitor signed in under another name. */
export const refresh = () => panel.refresh();

function show(given) {
  name = given.trim();
  remember("board", name);
  [board, standing, entries, cursor, buckets, from] = [null, null, [], null, [], { way: "top" }];
  shown = ENTRIES;
  panel.restart(`leaderboard:${name}`, changed);
}

async function load() {
  const requested = name;
  const definition = await panel.api.getBoard({ board: requested });
  const [found, distribution] = await Promise.all([loadStanding(), panel.api.getDistribution({ board: requested })]);
  if (requested !== name) return;
  [board, standing, buckets] = [definition, found, distribution.items];
  await loadEntries();
}

async function loadStanding() {
  if (!userId()) return null;
  try {
    return await panel.api.getPlayer({ board: name, player: userId() });
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

// A cursor is valid only for the query that returned it.
const query = () => (from.way === "around" ? { around: userId() } : { place: from.place });

async function loadEntries() {
  const [requested, length] = [from, shown];
  const page = await panel.api.getEntries({ board: name, ...query(), limit: Math.min(length, MOST_ENTRIES) });
  if (requested === from && length === shown) [entries, cursor] = [page.items, page.cursor];
}

/** Show the first ten entries of a push at once. Everything else is loaded again. */
function changed(value) {
  if (!value || !board) return value && panel.refresh();
  const isSame = value.players === board.players && from.way === "top" && JSON.stringify(value.items) === JSON.stringify(entries.slice(0, ENTRIES));
  if (isSame) return undefined; // the first value of the topic
  if (from.way === "top" && shown === ENTRIES) entries = value.items;
  board.players = value.players;
  panel.draw();
  return panel.refreshSoon();
}

const jump = (way, place) => panel.act(async () => {
  [from, shown] = [{ way, place }, ENTRIES];
  await loadEntries();
});

const more = () => panel.act(async () => {
  const next = await panel.api.getEntries({ board: name, ...query(), limit: ENTRIES, cursor });
  entries = [...entries, ...next.items];
  shown = entries.length;
  cursor = next.cursor;
});

function submit(event) {
  const value = Number(fields(event).value);
  return panel.act(async () => {
    const id = `page-${Date.now()}`; // a retry with the same id counts once
    const { score } = await panel.api.postScore({ board: name, id, value });
    panel.refresh();
    return text.submitted(points(score));
  });
}

// -- what is shown -------------------------------------------------------------------------------------

function template() {
  return board ? filled() : emptyState(text.none(name), html`${words.panel.adminCreates} <code>PUT /leaderboards/${name}</code>.`);
}

function filled() {
  queueMicrotask(plot);
  return html`
    <h3>${board.title} <span class="quiet">${text.players(board.players)}</span></h3>
    <div class="two">
      <div class="detail">
        ${standingLine()}
        <form class="row" @submit=${submit}>
          <label class="grow">${board.operator === "increment" ? text.pointsToAdd : text.yourScore}
            ${board.unit ? `(${board.unit})` : ""}
            <input name="value" type="number" min=${board.min} max=${board.max} step=${10 ** -board.decimals}
              inputmode="decimal" required ?disabled=${!userId()}>
          </label>
          <button class="primary" ?disabled=${!userId()}>${text.submit}</button>
        </form>
        ${userId() ? nothing : html`<p class="quiet">${text.signIn}</p>`}
        <figure ?hidden=${!buckets.length}>
          <div class="plot low" id="distribution"></div>
          <figcaption><span class="key">${text.perRange}</span>
            ${standing ? html`<span class="key accent">${words.you}</span>` : nothing}<span class="readout"></span></figcaption>
        </figure>
      </div>
      <div>
        <div class="row views-of" role="group" aria-label=${text.entries}>
          <button type="button" aria-pressed=${from.way === "top"} @click=${() => jump("top")}>${text.top}</button>
          <button type="button" aria-pressed=${from.way === "around"} ?disabled=${!standing}
            @click=${() => jump("around")}>${text.around}</button>
          <form class="jump" @submit=${(event) => jump("place", Number(fields(event).place))}>
            <label><span class="hidden">${text.position}</span>
              <input name="place" type="number" min="1" max=${Math.max(board.players, 1)} placeholder=${text.place}
                required></label>
            <button aria-label=${text.goTo}>${text.go}</button>
          </form>
        </div>
        ${entries.length ? table() : html`<p class="quiet">${text.noScores}</p>`}
        ${cursor ? html`<button type="button" class="more" @click=${more}>${words.more}</button>` : nothing}
      </div>
    </div>`;
}

function standingLine() {
  if (!standing) return html`<p class="standing">${text.noScore}</p>`;
  const { rank, of, percentile, toNext } = standing;
  return html`<p class="standing"><strong id="rank">${words.ordinal(rank)}</strong> ${text.of(of)}
    <span class="quiet">${text.percentile(percentile)}
    ${toNext === null ? text.inTheLead : text.toNext(points(toNext), board.unit)}</span></p>`;
}

function table() {
  return html`<table class="entries"><caption class="hidden">${text.bestFirst}</caption>
    <thead class="hidden"><tr><th scope="col">${text.rank}</th><th scope="col">${text.player}</th>
      <th scope="col">${text.score}</th></tr></thead>
    <tbody>${repeat(entries, ({ player }) => player, ({ rank, player, name: shownName, score }) => html`
      <tr aria-current=${player === userId() ? "true" : nothing}>
        <td class="rank">${count.format(rank)}</td><td class="player" title=${player}>${shownName ?? player}</td>
        <td class="number">${points(score)}</td></tr>`)}</tbody></table>`;
}

function plot() {
  const host = document.getElementById("distribution");
  if (host && buckets.length) bars.show(host, histogram(buckets, board.unit, standing?.score));
}
