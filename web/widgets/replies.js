// Votes for a comment, and the replies to it, which load when they are opened.

import { make, onSubmit } from "../lib/dom.js";
import { attempts, deleteButton, signature } from "./comment.js";
import { newKey } from "./element.js";
import { reportButton } from "./report.js";
import { paragraphs } from "./text.js";

const LONGEST = 2000; // characters of a reply
const PAGE = 10;
const KEY = "hubbub.votes";
const MOST = 1000; // votes that are remembered

// The API counts votes and does not list them, so this browser remembers those of its visitors. A vote from another
// browser is unknown here. Casting it again changes nothing.
let votes = []; // where the browser forbids storage, they last until the page is closed

function readVotes() {
  try {
    votes = JSON.parse(localStorage.getItem(KEY)) ?? votes;
  } catch { /* there is no storage, or something else in it */ }
  return votes;
}

function remember(vote, isCast) {
  votes = [...readVotes().filter((other) => other !== vote), ...(isCast ? [vote] : [])].slice(-MOST);
  try {
    localStorage.setItem(KEY, JSON.stringify(votes));
  } catch { /* the browser forbids storage */ }
}

/**
 * Create the elements of a comment's votes and replies. `send` sends a call as the visitor, whose id `visitor` returns.
 * A guest has no id before the first call. Visitors who cannot react, because they are not signed in, see the numbers.
 */
export function reactions(comment, widget, { product, isMine, mayReact, visitor, send }) {
  const { text } = widget, address = { product, id: comment.id };
  const [problem, attempt] = attempts(widget);
  const row = make("div", { part: "reactions", className: "row" });
  let thread = null, replies = [], cursor, key = newKey();

  // -- votes -------------------------------------------------------------------------------------------

  const count = make("span", { className: "quiet" });
  const vote = make("button", { type: "button", part: "vote", onclick: () => attempt(toggleVote) }, text.helpful, " ", count);
  const hasVoted = () => readVotes().includes(`${visitor()} ${comment.id}`);
  const showVotes = () => {
    vote.ariaPressed = String(hasVoted());
    count.textContent = widget.formats.count(comment.votes);
  };
  showVotes();
  if (mayReact && !isMine) row.append(vote);
  else if (comment.votes) row.append(make("span", { className: "quiet" }, text.foundHelpful(comment.votes)));

  async function toggleVote() {
    const isCast = !hasVoted();
    const body = await send(`${isCast ? "PUT" : "DELETE"} products/{product}/comments/{id}/vote`, address);
    comment.votes = isCast ? body.votes : Math.max(0, comment.votes - 1);
    remember(`${visitor()} ${comment.id}`, isCast);
    showVotes();
  }

  // -- replies -----------------------------------------------------------------------------------------

  const toggle = make("button", { type: "button", className: "link", ariaExpanded: "false", onclick: () => attempt(open) });
  const list = make("ol", { part: "replies" });
  const more = make("button", { type: "button", onclick: () => attempt(loadMore) }, text.moreReplies);
  const showCount = () => { toggle.textContent = comment.replies ? text.replies(comment.replies) : text.reply; };
  showCount();
  if (mayReact || comment.replies) row.append(toggle);
  const report = (more) => (reason) => send("POST products/{product}/comments/{id}/reports", { ...address, ...more, reason });
  if (mayReact && !isMine) row.append(reportButton(widget, row, report()));

  async function open() {
    if (thread) {
      thread.remove();
      thread = null;
    } else {
      [replies, cursor] = [[], undefined];
      if (comment.replies || visitor()) await load(); // one that is pending is not counted
      thread = make("div", { part: "thread" }, list, more, mayReact ? form() : make("p", { className: "quiet" }, text.signInToReply));
      show();
      row.after(thread);
      if (!comment.replies) thread.querySelector("textarea")?.focus();
    }
    toggle.ariaExpanded = String(Boolean(thread));
  }

  async function load() {
    const page = await widget.call("GET products/{product}/comments/{id}/replies", { ...address, limit: PAGE, cursor }, { signed: Boolean(visitor()) });
    cursor = page.cursor ?? undefined;
    add(...page.items);
  }

  /** Add replies in the order of their ids, which is that of time. A reply posted here may come again in a page. */
  function add(...items) {
    const all = new Map([...replies, ...items].map((reply) => [reply.id, reply]));
    replies = [...all.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  function show() {
    list.replaceChildren(...replies.map(draw));
    more.hidden = !cursor;
    showCount();
  }

  async function loadMore() {
    const known = new Set(replies);
    await load();
    show();
    list.children[replies.findIndex((reply) => !known.has(reply))]?.focus();
  }

  function draw(reply) {
    const head = make("p", { className: "row" }, ...signature(reply, widget));
    if (visitor() && reply.author === visitor()) head.append(deleteButton(() => attempt(() => remove(reply)), text.delete, text.deleteReply));
    else if (mayReact) head.append(reportButton(widget, head, report({ reply: reply.id })));
    return make("li", { part: "reply", tabIndex: -1 }, head, paragraphs(reply));
  }

  async function remove(reply) {
    await send("DELETE products/{product}/comments/{id}/replies/{reply}", { ...address, reply: reply.id });
    replies = replies.filter((other) => other !== reply);
    comment.replies -= reply.state !== "pending";
    show();
    toggle.focus();
  }

  function form() {
    const field = make("textarea", { maxLength: LONGEST, rows: 2, required: true });
    const names = widget.isGuest ? [widget.nameField()] : [];
    const made = make("form", { part: "form" }, make("label", {}, text.yourReply, field), ...names, make("button", {}, text.postReply));
    onSubmit(made, () => attempt(async () => {
      const reply = await send("POST products/{product}/comments/{id}/replies", { ...address, text: field.value }, { idempotencyKey: key });
      key = newKey(); // the same for each retry of a reply
      field.value = "";
      add(reply);
      comment.replies += reply.state !== "pending";
      show();
      widget.emit("replied", reply);
    }));
    return made;
  }

  return [row, problem];
}
