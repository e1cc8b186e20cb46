// The admin page: it asks for a token and then shows its panels.

import { authorization, token } from "./api.js";
import "./definitions.js";
import { showReports } from "./moderation.js";
import { showQuarantine, watch } from "./stream.js";
import { make } from "../widgets/element.js";

const byId = (id) => document.getElementById(id);

function signIn() {
  const { sub, exp } = claims(token.get());
  showState("live", sub ? `Signed in as ${sub} until ${new Date(exp * 1000).toLocaleTimeString([], { timeStyle: "short" })}` : "Signed in");
  byId("state").append(make("button", { type: "button", id: "sign-out", onclick: () => signOut() }, "Sign out"));
  byId("signed-out").hidden = true;
  byId("signed-in").hidden = false;
  warn("");
  showReports();
  showQuarantine();
  watch();
}

function signOut(reason = "") {
  token.set("");
  watch(false);
  byId("signed-in").hidden = true;
  byId("signed-out").hidden = false;
  for (const list of document.querySelectorAll(".list")) list.replaceChildren();
  showState(reason ? "error" : "idle", "Not signed in");
  warn(reason);
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

/** Decode the claims of a token for display. Only the API verifies them. */
function claims(text) {
  try {
    return JSON.parse(atob(text.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
  } catch {
    return {};
  }
}

authorization.addEventListener("refused", ({ detail: { status, message } }) => {
  if (!token.get()) return; // another call has already reported it
  signOut(status === 403 ? "This token does not have the scope admin." : `This token is invalid or has expired. Please sign in again. ${message}`);
});

byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(byId("token").value.trim().replace(/^bearer\s+/i, ""));
  byId("token").value = "";
  if (token.get()) signIn();
});

if (token.get()) signIn();
