// What waits for a moderator: pending and reported comments and replies, and hidden ones, each decided with a key.

import { make, stars } from "../lib/dom.js";
import { call } from "./client.js";
import { confirmed } from "./confirm.js";
import { article, facts, when } from "./list.js";
import { words } from "./words.js";

const PAGE = 100; // texts of each list that are loaded
const text = words.admin.queue;
const byId = (id) => document.getElementById(id);
const section = byId("queue"), box = section.querySelector(".list"), note = section.querySelector(".note"), help = byId("queue-help");
let turn = 0;

// -- load ----------------------------------------------------------------------------------------------

/** Load the texts of the chosen list, oldest first. A text that is pending and reported comes once. */
export async function showQueue() {
  const now = ++turn, which = section.querySelector("form").elements.queued.value;
  box.replaceChildren();
  note.textContent = words.state.loading;
  try {
    const found = await (which === "waiting" ? loadWaiting() : loadHidden());
    if (now !== turn) return;
    found.sort((a, b) => a.created.localeCompare(b.created));
    box.append(...found.map(draw));
    count();
  } catch (error) {
    if (now === turn) note.textContent = error.message;
  }
}

async function loadWaiting() {
  const pending = { state: "pending", limit: PAGE };
  const [comments, replies, reported] = await Promise.all([
    call("getAllComments", pending), call("getAllReplies", pending), call("getCommentReports", { limit: PAGE }),
  ]);
  return [...comments.items.map(ofComment), ...replies.items, ...reported.items];
}

async function loadHidden() {
  const [comments, replies] = await Promise.all([call("getAllComments", { limit: PAGE }), call("getAllReplies", { limit: PAGE })]);
  return [...comments.items.map(ofComment), ...replies.items].filter(({ state }) => state === "hidden");
}

/** Return a comment in the form of a reply: `comment` is its own id. */
const ofComment = ({ id, ...comment }) => ({ ...comment, comment: id, id: null });

function count() {
  const { length } = box.children;
  note.textContent = length ? text.left(length) : text.empty;
}

// -- decide --------------------------------------------------------------------------------------------

function draw(item) {
  const reply = item.id ?? item.reply ?? undefined, isReply = Boolean(reply), isReported = "reports" in item;
  const key = { product: item.product, id: item.comment, ...(isReply ? { reply } : {}) };
  const [patch, drop] = isReply ? ["patchReply", "deleteReply"] : ["patchComment", "deleteComment"];
  const problem = make("p", { className: "mark-bad", role: "alert" });
  const keep = isReported && item.state === "approved" ? ["deleteCommentReports", key] : [patch, { ...key, state: "approved" }];
  const label = isReported && item.state === "approved" ? text.keep : item.state === "hidden" ? words.admin.showAgain : text.approve;
  const approve = make("button", { type: "button", className: "approve", onclick: () => decide(...keep) }, label);
  const hide = make("button", { type: "button", className: "hide", hidden: item.state === "hidden", onclick: () => decide(patch, { ...key, hidden: true }) }, words.admin.hide);
  const remove = confirmed(words.admin.delete, () => decide(drop, key), { className: "delete" });
  const hours = make("select", { ariaLabel: words.admin.banFor }, ...Object.entries(words.admin.bans).map(([value, name]) => make("option", { value }, name)));
  const ban = confirmed(words.admin.ban, () => decide("putCommentBan", { author: item.author, hours: Number(hours.value) }, false));
  const reasons = (item.reasons ?? []).map((reason) => make("li", { dir: "auto" }, reason));
  const shown = article(
    make("p", { className: "row" },
      make("strong", { title: item.author, dir: "auto" }, item.name ?? item.author),
      make("span", { className: "quiet" }, isReply ? text.reply : text.comment),
      ...(item.rating ? [stars(item.rating, words.comments.starsOf5(item.rating))] : []),
      make("strong", {}, isReported ? text.reported(item.reports) : text.states[item.state])),
    make("p", { className: "words", dir: "auto", lang: item.language }, item.text),
    ...(reasons.length ? [make("ul", { className: "said-by" }, ...reasons)] : []),
    facts(make("a", { href: `#product/${encodeURIComponent(item.product)}` }, item.product), " · ", when(item.created), ` · ${item.language}`),
    make("div", { className: "row" }, approve, hide, remove, ban, hours),
    problem,
  );

  async function decide(name, args, isDone = true) {
    problem.textContent = "";
    try {
      await call(name, args);
      if (isDone) leave(shown);
      else problem.textContent = text.banned(item.name ?? item.author);
    } catch (error) {
      if (error.status === 404) leave(shown); // decided elsewhere
      else problem.textContent = error.message;
    }
  }

  return shown;
}

/** Remove a text that is decided, and go on with the next one. */
function leave(shown) {
  const next = shown.nextElementSibling ?? shown.previousElementSibling ?? byId("queue-title");
  shown.remove();
  count();
  next.focus();
}

// -- keys ----------------------------------------------------------------------------------------------

const press = (name) => section.querySelector("article:focus-within")?.querySelector(`button.${name}:not([hidden])`)?.click();
const move = (step) => {
  const all = [...box.children], at = all.findIndex((shown) => shown.contains(document.activeElement));
  all[at < 0 ? 0 : Math.min(all.length - 1, Math.max(0, at + step))]?.focus();
};
const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  a: () => press("approve"),
  h: () => press("hide"),
  d: () => press("delete"),
  "?": () => { help.hidden = !help.hidden; },
};

// The keys act only while the focus is in the queue, so that they disturb no other input (WCAG 2.1.4).
section.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, input")) return;
  if (!Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
});
section.querySelector("form").addEventListener("change", showQueue);
section.querySelector(".refresh:not(.help)").addEventListener("click", showQueue);
section.querySelector(".help").addEventListener("click", KEYS["?"]);
help.append(...Object.entries(text.keys).flatMap(([key, does]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, does)]));
