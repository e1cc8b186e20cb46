// The chat panel: talk with a stranger. The client keeps the connection, reconnects, and confirms what is sent.

import { suspend, takeSuspended } from "../lib/chat-resume.js";
import { CallLog, createClient } from "../lib/client.js";
import { api, socket } from "../lib/config.js";
import { dates, localClock } from "../lib/language.js";
import { words } from "../lib/words.js";
import { fields, frame } from "./panel.js";
import { html, nothing, render, repeat } from "../vendor/lit.js";

const TYPING_SHOWN = 2500; // ms for which "is typing" is shown
const TYPING_INTERVAL = 1500; // ms between two "typing" frames
const KEY = "hubbub.chat"; // in sessionStorage: what resumes the chat after a reload
const text = words.chat;

let chat = null, entries = [], isTyping = false, typingTimer = 0, typingSent = 0, isReporting = false;
let note = "", number = 0, chosen = { lobby: "main", interests: "" };
let before = ""; // the last state before the connection was lost
let parting = null; // what is said when the visitor leaves the partner; null if the partner leaves

const calls = new CallLog(), client = createClient(calls);
const [root] = frame("chat", {
  calls,
  lines: () => `import { Hubbub } from
  "${api}web/lib/hubbub.js";
const chat = new Hubbub("${api}").chat("main");
chat.addEventListener("message",
  ({ detail }) => show(detail.text));
await chat.sendMessage("Hello");`,
  about: { script: "panels/chat.js", module: "chalicelib/chat", documented: "chat" },
});

export function start() {
  addEventListener("pagehide", () => suspend(KEY, chat, chosen));
  resume();
  draw();
}

function join(event) {
  chosen = fields(event);
  chat?.close();
  entries = [];
  connect();
}

function connect(token = "") {
  const { lobby, interests } = chosen;
  before = token ? "matched" : "";
  const list = interests.split(",").map((one) => one.trim()).filter(Boolean);
  chat = client.chat(lobby.trim() || undefined, { interests: list, resume: token });
  chat.addEventListener("frame", ({ detail }) => calls.recordFrame(detail));
  chat.addEventListener("state", ({ detail }) => showState(detail));
  chat.addEventListener("message", ({ detail }) => add({ kind: "they", text: detail.text, time: detail.time }));
  chat.addEventListener("typing", showTyping);
  chat.addEventListener("error", ({ detail }) => tell(detail));
  draw();
}

// -- a reload ------------------------------------------------------------------------------------------

function resume() {
  const stored = socket && takeSuspended(KEY);
  if (!stored) return;
  chosen = { lobby: stored.lobby, interests: stored.interests };
  connect(stored.token);
}

// -- what happens --------------------------------------------------------------------------------------

function showState(state) {
  if (state === "matched") {
    if (before !== "matched") entries = []; // a new partner
    else add({ kind: "event", text: text.back });
  } else if (before === "matched" && state !== "offline") {
    if (parting !== "") add({ kind: "event", text: parting ?? text.strangerLeft });
  }
  if (state !== "offline") [before, parting] = [state, null];
  if (state !== "matched") [isReporting, isTyping] = [false, false];
  note = "";
  draw();
}

function add(entry) {
  entries = [...entries, { id: (number += 1), time: new Date().toISOString(), ...entry }];
  if (entry.kind === "they") isTyping = false;
  draw();
  root.querySelector(".said-here")?.lastElementChild?.scrollIntoView({ block: "nearest" });
  return number;
}

function mark(id, changes) {
  entries = entries.map((entry) => (entry.id === id ? { ...entry, ...changes } : entry));
  draw();
}

function showTyping() {
  clearTimeout(typingTimer);
  isTyping = true;
  typingTimer = setTimeout(() => {
    isTyping = false;
    draw();
  }, TYPING_SHOWN);
  draw();
}

function sendMessage(event) {
  const { text: said } = fields(event);
  if (chat?.state !== "matched" || !said.trim()) return;
  event.target.reset();
  note = "";
  deliver(said);
}

function sendAgain({ id, text: said }) {
  entries = entries.filter((entry) => entry.id !== id);
  note = "";
  deliver(said);
}

/** Show a message and send it. One that was refused is marked, and can be sent again. */
async function deliver(said) {
  const id = add({ kind: "you", text: said, problem: "", isOnTheWay: true });
  let problem = "";
  await chat.sendMessage(said).catch((error) => { problem = text.errors[error.code] ?? error.message; });
  mark(id, { problem, isOnTheWay: false });
}

function tell({ code, message }) {
  note = text.errors[code] ?? message ?? code;
  draw();
}

function sendTyping() {
  if (chat?.state !== "matched" || Date.now() - typingSent < TYPING_INTERVAL) return;
  typingSent = Date.now();
  chat.sendTyping();
}

function part(action) {
  parting = text.youLeft;
  chat[action]().catch(tell);
}

async function report(event) {
  const { reason } = fields(event);
  parting = "";
  isReporting = false;
  try {
    await chat.report(reason);
    add({ kind: "event", text: text.reported });
  } catch (error) {
    add({ kind: "event", text: text.notReported });
    tell(error);
  }
}

// -- what is shown -------------------------------------------------------------------------------------

function draw() {
  const state = chat?.state ?? "offline";
  const shown = chat && state === "offline" ? "lost" : state;
  render(html`
    ${socket ? nothing : html`<p class="notice">${text.notConfigured}</p>`}
    <form class="row" @submit=${join}>
      <label class="grow">${text.lobby} <input name="lobby" .value=${chosen.lobby} autocomplete="off" required></label>
      <label class="grow">${text.interests} <input name="interests" .value=${chosen.interests} placeholder=${text.example}
        autocomplete="off"></label>
      <button class=${chat ? nothing : "primary"} ?disabled=${!socket}>${chat ? text.joinAgain : text.join}</button>
    </form>
    <p class="chat-state" role="status" data-state=${shown}>${text.states[shown]}</p>
    <div class="said-here" role="log" aria-label=${text.messages} tabindex="0">
      ${entries.length || state === "matched" ? nothing : html`<p class="hint">${chat ? text.alone : text.notStored}</p>`}
      ${repeat(entries, ({ id }) => id, line)}
    </div>
    <p class="typing" aria-live="polite">${isTyping ? text.typing : note}</p>
    <form class="row" @submit=${sendMessage}>
      <label class="grow">${text.message}
        <input name="text" maxlength="2000" autocomplete="off" required ?disabled=${state !== "matched"} @input=${sendTyping}>
      </label>
      <button class="primary" ?disabled=${state !== "matched"}>${text.send}</button>
    </form>
    <div class="row">
      <button type="button" ?disabled=${state === "offline"}
        @click=${() => part(state === "idle" ? "find" : "next")}>${text.next}</button>
      <button type="button" ?disabled=${!["matched", "waiting"].includes(state)}
        @click=${() => part("leave")}>${text.leave}</button>
      <button type="button" aria-expanded=${isReporting} ?disabled=${state !== "matched"} @click=${() => {
        isReporting = !isReporting;
        draw();
      }}>${text.report}</button>
      ${isReporting ? reportForm() : nothing}
    </div>`, root);
}

function line(entry) {
  const { kind, text: said, time, problem, isOnTheWay } = entry;
  if (kind === "event") return html`<p class="event">${said}</p>`;
  return html`<p class="${kind} ${problem ? "refused" : isOnTheWay ? "on-the-way" : ""}"><span class="hidden">${kind === "you" ? words.you : text.stranger}: </span>${said}
    <time datetime=${time} title="${dates.second(time)} UTC">${localClock(time)}</time>
    ${problem ? html`<span class="problem">${text.notSent} ${problem}
      <button type="button" class="plain" ?disabled=${chat.state !== "matched"} @click=${() => sendAgain(entry)}>${text.again}</button></span>` : nothing}</p>`;
}

function reportForm() {
  return html`<form class="row" @submit=${report}>
    <label>${text.reason} <select name="reason">${Object.entries(text.reasons).map(([reason, label]) => html`<option
      value=${reason}>${label}</option>`)}</select></label>
    <button>${text.sendReport}</button></form>`;
}
