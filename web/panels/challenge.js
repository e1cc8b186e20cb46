// The challenge panel: submit answers, each counted once and up to a limit, and see everyone's progress.

import { api } from "../lib/config.js";
import { count } from "../lib/language.js";
import { Bars } from "../lib/plots.js";
import { userId } from "../lib/session.js";
import { words } from "../lib/words.js";
import { chooser, fields, emptyState, Panel, remember } from "./panel.js";
import { html, nothing, repeat } from "../vendor/lit.js";

const text = words.challenge;

let name = "", challenge = null, mine = { found: 0, paths: [] }, statistics = null;
let after = 0; // time (ms) until which the API refuses another guess
const bars = new Bars();

const panel = new Panel("challenge", {
  load,
  template,
  lines: () => `import { Hubbub } from
  "${api}web/lib/hubbub.js";
const hubbub = new Hubbub("${api}", { token });
const { found, limit } =
  await hubbub.postChallengePath(
    { challenge: "${name}", path: "Berlin" });`,
  tools: () => chooser(text.title, name, show),
  about: { script: "panels/challenge.js", module: "chalicelib/challenges", documented: "challenges" },
});

export function start() {
  show(remember("challenge") || "demo");
}

/** Load the panel again, after the visitor signed in under another name. */
export const refresh = () => panel.refresh();

function show(given) {
  name = given.trim();
  remember("challenge", name);
  [challenge, mine, statistics] = [null, { found: 0, paths: [] }, null];
  panel.restart(`challenge:${name}`, (value) => {
    if (!challenge) return value && panel.refresh();
    statistics = value ?? statistics;
    return panel.draw();
  });
}

async function load() {
  const requested = name;
  const definition = challenge ?? (await panel.api.getChallenge({ challenge: requested }));
  const [progress, counts] = await Promise.all([loadProgress(), panel.api.getChallengeStatistics({ challenge: requested })]);
  if (requested === name) [challenge, mine, statistics] = [definition, progress, counts];
}

async function loadProgress() {
  if (!userId()) return { found: 0, paths: [] };
  return panel.api.getChallengePlayer({ challenge: name, player: userId() });
}

function submit(event) {
  const form = event.target;
  const guess = fields(event).path;
  return panel.act(async () => {
    try {
      const { status, body } = await panel.api.request("postChallengePath", { challenge: name, path: guess });
      form.reset();
      mine = await loadProgress();
      return status === 201 ? text.correct(body.path, body.found, body.limit) : text.again;
    } catch (error) {
      if (error.code === "InvalidPath") return text.wrong(guess);
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
  return challenge ? filled() : emptyState(text.none(name), html`${words.panel.adminCreates} <code>PUT /challenges/${name}</code>.`);
}

function filled() {
  queueMicrotask(plot);
  const isOver = mine.found >= challenge.limit, isWaiting = Date.now() < after;
  return html`
    <h3>${challenge.title} <span class="quiet">${text.find(challenge.limit)}</span></h3>
    <div class="two">
      <div class="detail">
        <p class="standing"><strong id="found">${count.format(mine.found)}</strong> ${text.of(challenge.limit)}
          <progress max=${challenge.limit} value=${mine.found} aria-label=${text.progress}></progress></p>
        <form class="row" @submit=${submit}>
          <label class="grow">${text.answer}
            <input name="path" maxlength="200" autocomplete="off" required ?disabled=${!userId() || isOver}>
          </label>
          <button class="primary" ?disabled=${!userId() || isOver || isWaiting}>${isWaiting ? text.wait : text.submit}</button>
        </form>
        ${userId() ? nothing : html`<p class="quiet">${text.signIn}</p>`}
        <ul class="found" aria-label=${text.foundByYou}>
          ${repeat(mine.paths, (one) => one, (one) => html`<li>${one}</li>`)}</ul>
      </div>
      <div class="detail">
        <p class="quiet" id="players">${statistics.players ? text.total(statistics.players, statistics.paths) : text.noAnswers}</p>
        <figure>
          <div class="plot low" id="reached"></div>
          <figcaption><span class="key">${text.atLeast}</span>
            ${mine.found ? html`<span class="key accent">${words.you}</span>` : nothing}<span class="readout"></span></figcaption>
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
    ticks: (width) => {
      const every = [1, 2, 5, 10, 25, 50, 100].find((step) => step * (width / values.length) >= 36) ?? values.length;
      return values.flatMap((_, i) => ((i + 1) % every ? [] : [{ at: i, text: String(i + 1) }]));
    },
    xTitle: text.answersFound,
    yTitle: text.playersAxis,
    describe: (i) => text.reached(i + 1, values[i] ?? 0, statistics.exactly[i + 1] ?? 0),
    summary: values[0] ? text.foundAll(values.at(-1), values.length) : "",
    hint: words.plot.hint,
  });
}
