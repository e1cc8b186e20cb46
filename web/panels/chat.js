// The chat panel: talk with a stranger. lib/chat-client.js keeps the connection and reconnects.

import { ApiClient } from "../lib/api.js";
import { ChatClient } from "../lib/chat-client.js";
import { socket } from "../lib/config.js";
import { showCallLog } from "./call-log.js";
import { fields } from "./panel.js";
import { html, nothing, render, repeat } from "../vendor/lit.js";
import { CHAT_ERRORS, CHAT_STATES, REPORT_REASONS } from "../lib/words.js";

const TYPING_SHOWN = 2500; // ms for which "is typing" is shown
const TYPING_INTERVAL = 1500; // ms between two "typing" frames

let chat = null, messages = [], isTyping = false, typingTimer = 0, typingSent = 0, isReporting = false;
let note = "", number = 0;

const calls = new ApiClient();
const section = document.getElementById("chat");
const root = section.querySelector(".body");

export function start() {
  showCallLog(calls, section.querySelector(".ledger"), {
    script: "panels/chat.js", module: "chalicelib/chat", documented: "chat",
  });
  addEventListener("pagehide", () => chat?.close());
  draw();
}

function join(event) {
  const { lobby, interests } = fields(event);
  chat?.close();
  messages = [];
  const url = new URL(socket);
  if (lobby.trim()) url.searchParams.set("lobby", lobby.trim());
  if (interests.trim()) url.searchParams.set("interests", interests.trim());
  chat = new ChatClient(url);
  chat.addEventListener("frame", ({ detail }) => calls.recordFrame(detail.way, detail.name));
  chat.addEventListener("state", ({ detail }) => showState(detail));
  chat.addEventListener("message", ({ detail }) => add("they", detail.text));
  chat.addEventListener("typing", showTyping);
  chat.addEventListener("error", ({ detail }) => {
    note = CHAT_ERRORS[detail.code] ?? detail.code;
    draw();
  });
  draw();
}

let before = "";
function showState(state) {
  if (state === "matched" && before !== "offline") messages = []; // a new partner
  if (state !== "offline") before = state;
  if (state !== "matched") [isReporting, isTyping] = [false, false];
  note = "";
  draw();
}

function add(who, text) {
  messages = [...messages, { id: (number += 1), who, text }];
  isTyping = false;
  draw();
  root.querySelector(".said-here")?.lastElementChild?.scrollIntoView({ block: "nearest" });
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
  const { text } = fields(event);
  if (chat?.state !== "matched" || !text.trim()) return;
  chat.sendMessage(text);
  event.target.reset();
  add("you", text);
}

function sendTyping() {
  if (chat?.state !== "matched" || Date.now() - typingSent < TYPING_INTERVAL) return;
  typingSent = Date.now();
  chat.sendTyping();
}

function report(event) {
  chat.report(fields(event).reason);
  isReporting = false;
  draw();
}

// -- what is shown -------------------------------------------------------------------------------------

function draw() {
  const state = chat?.state ?? "offline";
  const shown = chat && state === "offline" ? "lost" : state;
  render(html`
    ${socket ? nothing : html`<p class="notice">Chat is not available because the address of the WebSocket API is not configured. Set
      <code>HUBBUB_SOCKET</code> in the stage, or <code>socket</code> in <code>web/config.json</code>.</p>`}
    <form class="row" @submit=${join}>
      <label class="grow">Lobby <input name="lobby" value="main" autocomplete="off" required></label>
      <label class="grow">Interests <input name="interests" placeholder="chess, film" autocomplete="off"></label>
      <button class=${chat ? nothing : "primary"} ?disabled=${!socket}>${chat ? "Join again" : "Join"}</button>
    </form>
    <p class="chat-state" role="status" data-state=${shown}>${CHAT_STATES[shown]}</p>
    <div class="said-here" role="log" aria-label="Messages" tabindex="0">
      ${messages.length ? nothing : html`<p class="hint">${chat ? "To try it alone, open this page in a second tab."
        : "Messages are not stored. To try it alone, join and open this page in a second tab."}</p>`}
      ${repeat(messages, ({ id }) => id, ({ who, text }) => html`<p class=${who}><span
        class="hidden">${who === "you" ? "You" : "Partner"}: </span>${text}</p>`)}
    </div>
    <p class="typing" aria-live="polite">${isTyping ? "Your partner is typing …" : note}</p>
    <form class="row" @submit=${sendMessage}>
      <label class="grow">Message
        <input name="text" maxlength="2000" autocomplete="off" required ?disabled=${state !== "matched"} @input=${sendTyping}>
      </label>
      <button class="primary" ?disabled=${state !== "matched"}>Send</button>
    </form>
    <div class="row">
      <button type="button" ?disabled=${state === "offline"}
        @click=${() => (state === "idle" ? chat.find() : chat.next())}>Next</button>
      <button type="button" ?disabled=${!["matched", "waiting"].includes(state)}
        @click=${() => chat.leave()}>Leave</button>
      <button type="button" aria-expanded=${isReporting} ?disabled=${state !== "matched"} @click=${() => {
        isReporting = !isReporting;
        draw();
      }}>Report</button>
      ${isReporting ? reportForm() : nothing}
    </div>`, root);
}

function reportForm() {
  return html`<form class="row" @submit=${report}>
    <label>Reason <select name="reason">${REPORT_REASONS.map((reason) => html`<option>${reason}</option>`)}</select></label>
    <button>Send report</button></form>`;
}
