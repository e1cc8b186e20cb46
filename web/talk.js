// Chat with a stranger. chat.js looks after the connection, and comes back by itself.

import { Calls } from "./calls.js";
import { Chat } from "./chat.js";
import { socket } from "./config.js";
import { showLedger } from "./ledger.js";
import { fields } from "./panel.js";
import { html, nothing, render, repeat } from "./vendor/lit.js";

const WORDS = {
  offline: "Not connected",
  lost: "Connection lost, coming back …",
  waiting: "Waiting for somebody",
  matched: "You are talking with a stranger",
  idle: "You have left the lobby",
};
const REFUSALS = {
  not_matched: "Nobody is there to hear you.",
  too_long: "That is too long.",
  slow_down: "Slower, please.",
  bad_request: "That was not understood.",
};
const REASONS = ["Insults", "Advertising", "Something else"];
const TYPING = 2500; // ms that "is typing" stays
const EVERY = 1500; // ms between two frames that say so

let chat = null, said = [], isTyping = false, typing = 0, told = 0, isReporting = false, note = "", number = 0;

const calls = new Calls();
const section = document.getElementById("chat");
const root = section.querySelector(".body");

export function start() {
  showLedger(calls, section.querySelector(".ledger"), {
    script: "chat.js", module: "chalicelib/chat/handlers.py", documented: "chat",
  });
  addEventListener("pagehide", () => chat?.close());
  draw();
}

function join(event) {
  const { lobby, interests } = fields(event);
  chat?.close();
  said = [];
  const url = new URL(socket);
  if (lobby.trim()) url.searchParams.set("lobby", lobby.trim());
  if (interests.trim()) url.searchParams.set("interests", interests.trim());
  chat = new Chat(url);
  chat.addEventListener("frame", ({ detail }) => calls.noteFrame(detail.way, detail.name));
  chat.addEventListener("state", ({ detail }) => became(detail));
  chat.addEventListener("message", ({ detail }) => add("they", detail.text));
  chat.addEventListener("typing", hearTyping);
  chat.addEventListener("error", ({ detail }) => {
    note = REFUSALS[detail.code] ?? detail.code;
    draw();
  });
  draw();
}

let before = "";
function became(state) {
  if (state === "matched" && before !== "offline") said = []; // somebody new
  if (state !== "offline") before = state;
  if (state !== "matched") [isReporting, isTyping] = [false, false];
  note = "";
  draw();
}

function add(who, text) {
  said = [...said, { id: (number += 1), who, text }];
  isTyping = false;
  draw();
  root.querySelector(".said-here")?.lastElementChild?.scrollIntoView({ block: "nearest" });
}

function hearTyping() {
  clearTimeout(typing);
  isTyping = true;
  typing = setTimeout(() => {
    isTyping = false;
    draw();
  }, TYPING);
  draw();
}

function say(event) {
  const { text } = fields(event);
  if (chat?.state !== "matched" || !text.trim()) return;
  chat.say(text);
  event.target.reset();
  add("you", text);
}

function tell() {
  if (chat?.state !== "matched" || Date.now() - told < EVERY) return;
  told = Date.now();
  chat.typing();
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
    ${socket ? nothing : html`<p class="notice">The address of the sockets is not known. Set
      <code>HUBBUB_SOCKET</code> in the stage, or <code>socket</code> in <code>web/config.json</code>.</p>`}
    <form class="row" @submit=${join}>
      <label class="grow">Lobby <input name="lobby" value="main" autocomplete="off" required></label>
      <label class="grow">Interests <input name="interests" placeholder="chess, film" autocomplete="off"></label>
      <button class=${chat ? nothing : "primary"} ?disabled=${!socket}>${chat ? "Join again" : "Join"}</button>
    </form>
    <p class="chat-state" role="status" data-state=${shown}>${WORDS[shown]}</p>
    <div class="said-here" role="log" aria-label="What was said" tabindex="0">
      ${said.length ? nothing : html`<p class="hint">${chat ? "Open this page in another tab to talk with yourself."
        : "Nobody keeps what you say. Join, and open this page in a second tab."}</p>`}
      ${repeat(said, ({ id }) => id, ({ who, text }) => html`<p class=${who}><span
        class="hidden">${who === "you" ? "You" : "They"}: </span>${text}</p>`)}
    </div>
    <p class="typing" aria-live="polite">${isTyping ? "They are typing …" : note}</p>
    <form class="row" @submit=${say}>
      <label class="grow">Message
        <input name="text" maxlength="2000" autocomplete="off" required ?disabled=${state !== "matched"} @input=${tell}>
      </label>
      <button class="primary" ?disabled=${state !== "matched"}>Say</button>
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
      ${isReporting ? reasons() : nothing}
    </div>`, root);
}

function reasons() {
  return html`<form class="row" @submit=${report}>
    <label>Why <select name="reason">${REASONS.map((reason) => html`<option>${reason}</option>`)}</select></label>
    <button>Report and part</button></form>`;
}
