// A challenge: answers to find, each once and up to a limit, and how far everybody is.

import { part } from "./config.js";
import { chooser, fields, nothingYet, Panel, remember } from "./panel.js";
import { Bars } from "./plots.js";
import { you } from "./session.js";
import { html, nothing, repeat } from "./vendor/lit.js";
import { count, plural } from "./words.js";

let name = "", challenge = null, mine = { found: 0, paths: [] }, statistics = null;
let after = 0; // when the next guess is taken
const bars = new Bars(170);

const panel = new Panel("challenge", {
  load,
  template,
  about: { script: "challenge.js", module: "chalicelib/challenges/definitions.py", documented: "challenges" },
});

export function start() {
  show(remember("challenge") || "demo");
}

/** Your name has changed. */
export const refresh = () => panel.refresh();

function show(text) {
  name = text.trim();
  remember("challenge", name);
  [challenge, mine, statistics] = [null, { found: 0, paths: [] }, null];
  panel.restart(`challenge:${name}`, (value) => {
    statistics = value;
    panel.draw();
  });
}

const path = (rest = "") => `/challenges/${part(name)}${rest}`;

async function load() {
  const of = name;
  const found = challenge ?? (await panel.calls.get(path()));
  const [progress, sums] = await Promise.all([findMine(), panel.calls.get(path("/statistics"))]);
  if (of === name) [challenge, mine, statistics] = [found, progress, sums];
}

async function findMine() {
  if (!you()) return { found: 0, paths: [] };
  return (await panel.calls.ask("GET", path(`/players/${part(you())}`), { mine: true })).body;
}

function submit(event) {
  const form = event.target;
  const guess = fields(event).path;
  return panel.act(async () => {
    try {
      const { status, body } = await panel.calls.ask("POST", path("/paths"), { body: { path: guess } });
      form.reset();
      mine = await findMine();
      return status === 201 ? `${body.path}: found. That makes ${body.found} of ${body.limit}.` : "You have that one.";
    } catch (error) {
      if (error.code === "InvalidPath") return `${guess}: no.`;
      if (error.code === "SlowDown") wait(error.retryAfter || 6);
      throw error;
    }
  });
}

/** Take no guess for so many seconds; the API would not either. */
function wait(seconds) {
  after = Date.now() + seconds * 1000;
  setTimeout(() => panel.draw(), seconds * 1000 + 50);
}

// -- what is shown -------------------------------------------------------------------------------------

function template() {
  return html`
    ${chooser("Challenge", name, show)}
    ${challenge ? filled() : empty()}`;
}

function empty() {
  const how = html`An admin makes one: <code>PUT /challenges/${name}</code>`;
  return nothingYet(`There is no challenge ${name} yet.`, how);
}

function filled() {
  queueMicrotask(plot);
  const isOver = mine.found >= challenge.limit, isWaiting = Date.now() < after;
  return html`
    <h3>${challenge.title} <span class="quiet">find ${count.format(challenge.limit)}</span></h3>
    <div class="two">
      <div class="detail">
        <p class="standing"><strong id="found">${count.format(mine.found)}</strong> of ${count.format(challenge.limit)}
          <progress max=${challenge.limit} value=${mine.found} aria-label="Found by you"></progress></p>
        <form class="row" @submit=${submit}>
          <label class="grow">Your next answer
            <input name="path" maxlength="200" autocomplete="off" required ?disabled=${!you() || isOver}>
          </label>
          <button class="primary" ?disabled=${!you() || isOver || isWaiting}>${isWaiting ? "Wait …" : "Try"}</button>
        </form>
        ${you() ? nothing : html`<p class="quiet">To play, say who you are (above).</p>`}
        <ul class="found" aria-label="What you have found">
          ${repeat(mine.paths, (one) => one, (one) => html`<li>${one}</li>`)}</ul>
      </div>
      <div>
        <p class="quiet">${statistics.players
          ? `${plural(statistics.players, "player")} found ${count.format(statistics.paths)} in all.`
          : "Nobody has found one yet."}</p>
        <figure>
          <div class="plot" id="reached"></div>
          <figcaption><span class="key">players who found at least so many</span>
            ${mine.found ? html`<span class="key accent">you</span>` : nothing}<span class="readout"></span></figcaption>
        </figure>
      </div>
    </div>`;
}

function plot() {
  const host = document.getElementById("reached");
  if (!host || !statistics) return;
  const values = Object.values(statistics.reached);
  bars.show(host, {
    series: [{ values, colour: "--views", width: 0.8 }],
    marked: mine.found - 1,
    tick: (i) => String(i + 1),
    describe: (i) => `${i + 1} or more: ${plural(values[i] ?? 0, "player")}, exactly: ${statistics.exactly[i + 1] ?? 0}`,
    summary: values[0] ? `${plural(values.at(-1), "player")} found all ${values.length}.` : "",
  });
}
