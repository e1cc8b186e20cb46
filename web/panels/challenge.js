// The challenge panel: submit answers, each counted once and up to a limit, and see everyone's progress.

import { encode } from "../lib/config.js";
import { chooser, fields, emptyState, Panel, remember } from "./panel.js";
import { Bars } from "../lib/plots.js";
import { userName } from "../lib/session.js";
import { html, nothing, repeat } from "../vendor/lit.js";
import { count, plural } from "../lib/words.js";

let name = "", challenge = null, mine = { found: 0, paths: [] }, statistics = null;
let after = 0; // time (ms) until which the API refuses another guess
const bars = new Bars(170);

const panel = new Panel("challenge", {
  load,
  template,
  about: { script: "panels/challenge.js", module: "chalicelib/challenges", documented: "challenges" },
});

export function start() {
  show(remember("challenge") || "demo");
}

/** Load the panel again, after the visitor signed in under another name. */
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

const path = (rest = "") => `/challenges/${encode(name)}${rest}`;

async function load() {
  const requested = name;
  const definition = challenge ?? (await panel.api.get(path()));
  const [progress, counts] = await Promise.all([loadProgress(), panel.api.get(path("/statistics"))]);
  if (requested === name) [challenge, mine, statistics] = [definition, progress, counts];
}

async function loadProgress() {
  if (!userName()) return { found: 0, paths: [] };
  return (await panel.api.request("GET", path(`/players/${encode(userName())}`), { mine: true })).body;
}

function submit(event) {
  const form = event.target;
  const guess = fields(event).path;
  return panel.act(async () => {
    try {
      const { status, body } = await panel.api.request("POST", path("/paths"), { body: { path: guess } });
      form.reset();
      mine = await loadProgress();
      return status === 201 ? `${body.path} is correct: ${body.found} of ${body.limit} found.` : "You have already found this answer.";
    } catch (error) {
      if (error.code === "InvalidPath") return `${guess} is not a correct answer.`;
      if (error.code === "SlowDown") wait(error.retryAfter || 6);
      throw error;
    }
  });
}

/** Disable the form for some seconds, in which the API would refuse the next guess as well. */
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
  const how = html`An admin creates it with <code>PUT /challenges/${name}</code>.`;
  return emptyState(`No challenge named ${name} yet.`, how);
}

function filled() {
  queueMicrotask(plot);
  const isOver = mine.found >= challenge.limit, isWaiting = Date.now() < after;
  return html`
    <h3>${challenge.title} <span class="quiet">find ${plural(challenge.limit, "answer")}</span></h3>
    <div class="two">
      <div class="detail">
        <p class="standing"><strong id="found">${count.format(mine.found)}</strong> of ${count.format(challenge.limit)}
          <progress max=${challenge.limit} value=${mine.found} aria-label="Your progress"></progress></p>
        <form class="row" @submit=${submit}>
          <label class="grow">Your answer
            <input name="path" maxlength="200" autocomplete="off" required ?disabled=${!userName() || isOver}>
          </label>
          <button class="primary" ?disabled=${!userName() || isOver || isWaiting}>${isWaiting ? "Wait …" : "Submit"}</button>
        </form>
        ${userName() ? nothing : html`<p class="quiet">Sign in at the top of the page to play.</p>`}
        <ul class="found" aria-label="Answers you have found">
          ${repeat(mine.paths, (one) => one, (one) => html`<li>${one}</li>`)}</ul>
      </div>
      <div>
        <p class="quiet">${statistics.players
          ? `${plural(statistics.players, "player")} found ${plural(statistics.paths, "answer")} in total.`
          : "No answers found yet."}</p>
        <figure>
          <div class="plot" id="reached"></div>
          <figcaption><span class="key">players who found at least this many answers</span>
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
    describe: (i) => `At least ${i + 1}: ${plural(values[i] ?? 0, "player")}. Exactly ${i + 1}: ${plural(statistics.exactly[i + 1] ?? 0, "player")}.`,
    summary: values[0] ? `${plural(values.at(-1), "player")} found all ${values.length}.` : "",
  });
}
