// The chat's page: joins a lobby and talks. chat.js looks after the connection.

import { Chat } from "./chat.js";

const byId = (id) => document.getElementById(id);
const WORDS = { waiting: "Waiting", matched: "Talking", idle: "Left", offline: "Not connected" };
let chat = null;

// `make run` has the sockets one port above the page.
const secure = location.protocol === "https:";
byId("socket").value = `${secure ? "wss" : "ws"}://${location.hostname}:${Number(location.port || (secure ? 443 : 80)) + 1}`;
const given = new URLSearchParams(location.search).get("socket");
if (given) byId("socket").value = given;

byId("join").addEventListener("submit", (event) => {
  event.preventDefault();
  chat?.close();
  const url = new URL(byId("socket").value);
  url.searchParams.set("lobby", byId("lobby").value.trim());
  const interests = byId("interests").value.trim();
  if (interests) url.searchParams.set("interests", interests);
  chat = new Chat(url);
  chat.addEventListener("state", ({ detail }) => {
    byId("state").textContent = WORDS[detail];
    byId("state").dataset.state = { offline: "offline", idle: "idle" }[detail] ?? "live";
    if (detail === "matched") byId("said").replaceChildren();
    offer(detail);
  });
  chat.addEventListener("message", ({ detail }) => show("they", detail.text));
  chat.addEventListener("error", ({ detail }) => show("note", detail.code));
});

byId("say").addEventListener("submit", (event) => {
  event.preventDefault();
  if (chat?.state !== "matched") return;
  chat.say(byId("text").value);
  show("you", byId("text").value);
  byId("text").value = "";
});

byId("next").addEventListener("click", () => (chat?.state === "idle" ? chat.find() : chat?.next()));
byId("leave").addEventListener("click", () => chat?.leave());
byId("report").addEventListener("click", () => chat?.report("reported from the page"));
window.addEventListener("pagehide", () => chat?.close());

// What can be done now: each button says in which states.
function offer(state) {
  for (const button of document.querySelectorAll("[data-in]")) button.disabled = !button.dataset.in.split(" ").includes(state);
}

offer("offline");

function show(who, text) {
  const line = byId("said").appendChild(document.createElement("p"));
  line.className = who;
  line.textContent = `${who}: ${text}`;
  line.scrollIntoView({ block: "nearest" });
}
