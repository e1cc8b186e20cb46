// A leaderboard's page: its players, the distribution of their scores, removing a player, and ending the season.

import { make } from "../lib/dom.js";
import { Histogram } from "../lib/histogram.js";
import { count, decimal, formats } from "../lib/pages.js";
import { call } from "./client.js";
import { confirmed } from "./confirm.js";
import { when } from "./list.js";
import { words } from "./words.js";

const ENTRIES = 20;
const text = words.admin;
const byId = (id) => document.getElementById(id);
const card = byId("board-page"), box = card.querySelector(".page-of");
const bars = new Histogram();

let shown = "", turn = 0;

/** Show a leaderboard, or only the part of it around a player. */
export async function showBoard(name, around = "") {
  const requested = (turn += 1);
  shown = name;
  card.hidden = false;
  box.replaceChildren(make("p", { className: "quiet" }, words.state.loading));
  try {
    const [board, { items: buckets }, page] = await Promise.all([
      call("getBoard", { board: name }),
      call("getDistribution", { board: name }),
      call("getEntries", { board: name, limit: ENTRIES, around: around || undefined }),
    ]);
    if (requested === turn) draw(name, board, buckets, page);
  } catch (error) {
    if (requested === turn) box.replaceChildren(make("p", { className: "problem", role: "alert" }, error.message));
  }
}

function draw(name, board, buckets, page) {
  const problem = make("p", { className: "mark-bad", role: "alert" });
  const attempt = async (work) => {
    problem.textContent = "";
    try {
      await work();
    } catch (error) {
      problem.textContent = error.message;
    }
  };
  const players = make("input", { name: "player", autocomplete: "off", autocapitalize: "none", spellcheck: false, required: true });
  const find = make("form", { className: "row" }, make("label", { className: "grow" }, text.findPlayer, players), make("button", {}, text.find));
  find.addEventListener("submit", (event) => {
    event.preventDefault();
    showBoard(shown, players.value.trim());
  });
  const end = confirmed(text.endSeason(board.season), () => attempt(async () => {
    await call("postSeason", { board: name, season: board.season });
    showBoard(shown);
  }));
  const facts = make("p", { className: "facts" }, text.boardFacts(board.players, board.season));
  if (board.ends) facts.append(` · ${text.resets} `, when(board.ends));
  const plot = make("div", { className: "plot low", id: "board-plot" });
  const figure = make("figure", { hidden: !buckets.length }, plot, make("figcaption", {}, make("span", { className: "readout" })));
  const body = make("tbody"), rows = make("table", {}, head(), body);
  const more = make("button", { type: "button", className: "more" }, words.more);
  more.hidden = !page.cursor;
  const add = (items) => body.append(...items.map((entry) => row(entry, board, attempt)));
  more.addEventListener("click", () => attempt(async () => {
    page = await call("getEntries", { board: name, limit: ENTRIES, cursor: page.cursor });
    add(page.items);
    more.hidden = !page.cursor;
  }));
  add(page.items);
  box.replaceChildren(
    make("h3", {}, board.title), facts, figure, find, problem,
    page.items.length ? rows : make("p", { className: "quiet" }, words.leaderboard.none),
    more, make("div", { className: "row" }, end),
  );
  if (buckets.length) bars.showScores(plot, buckets, { unit: board.unit, text: words.leaderboard, words, formats });
}

function head() {
  const column = (name, className = "") => make("th", { scope: "col", className }, name);
  return make("thead", {}, make("tr", {}, column(words.rank), column(words.player),
    column(words.score, "number"), make("td")));
}

function row({ rank, player, name, score }, { board, decimals }, attempt) {
  const drop = confirmed(text.remove, () => attempt(async () => {
    await call("deletePlayer", { board, player });
    line.remove();
  }), { className: "small", title: text.removePlayer(player) });
  const line = make("tr", {},
    make("td", {}, count(rank)), make("td", { title: player }, name ?? player),
    make("td", { className: "number" }, decimal(score, decimals)), make("td", { className: "number" }, drop));
  return line;
}
