// The admin page: a token first, then all the rest. admin-*.js has its parts.

import { doubts, token } from "./admin-calls.js";
import "./admin-forms.js";
import { showReports } from "./admin-moderation.js";
import { showQuarantine, watch } from "./admin-stream.js";
import { make } from "./widgets/element.js";

const byId = (id) => document.getElementById(id);

function open() {
  const { sub, exp } = claims(token.get());
  say("live", sub ? `${sub}, until ${new Date(exp * 1000).toLocaleTimeString([], { timeStyle: "short" })}` : "With a token");
  byId("state").append(make("button", { type: "button", id: "forget", onclick: () => close() }, "Forget"));
  byId("signed-out").hidden = true;
  byId("signed-in").hidden = false;
  warn("");
  showReports();
  showQuarantine();
  watch();
}

function close(why = "") {
  token.set("");
  watch(false);
  byId("signed-in").hidden = true;
  byId("signed-out").hidden = false;
  for (const list of document.querySelectorAll(".list")) list.replaceChildren();
  say(why ? "error" : "idle", "No token");
  warn(why);
  byId("token").focus();
}

function say(name, text) {
  byId("state").textContent = text;
  byId("state").dataset.state = name;
}

function warn(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
}

/** Read what a token says; whether it is true, the API decides. */
function claims(text) {
  try {
    return JSON.parse(atob(text.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
  } catch {
    return {};
  }
}

doubts.addEventListener("refused", ({ detail: { status, message } }) => {
  if (!token.get()) return; // several calls were under way
  close(status === 403 ? "This token is valid, but has not the scope admin." : `This token is not taken any more: sign in again. ${message}`);
});

byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(byId("token").value.trim().replace(/^bearer\s+/i, ""));
  byId("token").value = "";
  if (token.get()) open();
});

if (token.get()) open();
