// The admin page: it asks for a token and then shows its panels.

import { readClaims } from "../lib/core.js";
import { make } from "../lib/dom.js";
import { config, localClock, showHeader } from "../lib/pages.js";
import { showBoard } from "./board.js";
import { authorization, token } from "./client.js";
import { loadBoard, loadChallenge, loadSite } from "./definitions.js";
import { showLists } from "./lists.js";
import { showNewest, showProduct, showReports } from "./moderation.js";
import { showQueue } from "./queue.js";
import * as provider from "./sign-in.js";
import { showQuarantine, watch } from "./stream.js";
import { words } from "./words.js";

const text = words.admin;
const byId = (id) => document.getElementById(id);

function signIn() {
  const { sub, exp } = readClaims(token.get());
  showState("live", sub && exp ? text.signedInAs(sub, localClock(exp * 1000)) : text.signedIn);
  byId("state").append(make("button", { type: "button", id: "sign-out", onclick: () => signOut() }, text.signOut));
  byId("signed-out").hidden = true;
  byId("signed-in").hidden = false;
  warn("");
  showLists();
  showQueue();
  showNewest();
  showReports();
  showQuarantine();
  watch();
  open();
}

/** Open what the fragment of the address names: a board, challenge, product or site, such as `#leaderboard/<board>`. */
function open() {
  const [kind, name] = location.hash.slice(1).split("/").map(decodeURIComponent);
  if (!name || byId("signed-in").hidden) return;
  if (kind === "leaderboard") {
    loadBoard(name);
    showBoard(name);
  } else if (kind === "challenge") loadChallenge(name);
  else if (kind === "site") loadSite(name);
  else if (kind === "product") showProduct(name);
}

function signOut(reason = "") {
  token.set("");
  watch(false);
  byId("signed-in").hidden = true;
  byId("signed-out").hidden = false;
  for (const list of document.querySelectorAll(".list")) list.replaceChildren();
  byId("board-page").hidden = true;
  byId("lists").replaceChildren();
  showState(reason ? "error" : "idle", text.signedOut);
  warn(reason);
  offerProvider();
  byId("token").focus();
}

function showState(name, text) {
  byId("state").textContent = text;
  byId("state").dataset.state = name;
}

function warn(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
}

authorization.addEventListener("refused", ({ detail: { status, message } }) => {
  if (!token.get()) return; // another call has already reported it
  console.warn(message); // names the claim
  signOut(status === 403 ? text.noAdmin : text.invalidToken);
});

byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(byId("token").value.trim().replace(/^bearer\s+/i, ""));
  byId("token").value = "";
  if (token.get()) signIn();
});

/** Name the stage, offer its identity provider, and sign in when that has returned. */
async function offerProvider() {
  const { signIn: found, stage } = config;
  if (stage) byId("stage").textContent = stage;
  if (!found) return;
  byId("provider").hidden = false;
  byId("provider").onclick = () => provider.leave(found);
  if (!provider.hasReturned()) return;
  try {
    token.set(await provider.finish(found));
    signIn();
  } catch (error) {
    warn(`${text.providerRefused} ${error.message}`);
  }
}

addEventListener("hashchange", open);
addEventListener("hubbub-defined", ({ detail: { kind, name } }) => kind === "leaderboard" && showBoard(name));
document.querySelector("#board .load").addEventListener("click", () => {
  const name = byId("board").elements.leaderboard.value.trim();
  if (name) showBoard(name);
});

for (const element of document.querySelectorAll("[data-words]")) element.textContent = text[element.dataset.words];
showHeader();
document.title = `Hubbub: ${text.title}`;
showState("idle", text.signedOut);
if (token.get() && !provider.hasReturned()) signIn();
else {
  byId("signed-out").hidden = false;
  offerProvider();
}
