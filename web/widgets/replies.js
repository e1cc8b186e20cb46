// Votes for a comment, and the replies to it, which load when they are opened.

import { make } from "../lib/dom.js";
import { hasVoted, toggleVote } from "../lib/votes.js";
import { deleteButton, errorText, LONGEST, signature } from "./comment.js";
import { nameField } from "./element.js";

const PAGE = 10;

/**
 * Create the elements of a comment's votes and replies. `call` sends a call as the visitor, whose id `visitor` returns.
 * A guest has no id before the first call. Visitors who cannot react, because they are not signed in, see the numbers.
 */
export function reactions(comment, { product, words, language, isMine, canReact, visitor, call, replied }) {
  const text = words.comments, address = { product, id: comment.id };
  const problem = make("p", { className: "problem", role: "alert" });
  const row = make("div", { part: "reactions", className: "row" });
  let thread = null, replies = [], cursor, key = newKey(), isBusy = false;

  const attempt = async (work) => {
    if (isBusy) return;
    isBusy = true;
    problem.textContent = "";
    try {
      await work();
    } catch (error) {
      problem.textContent = errorText(error, words);
    }
    isBusy = false;
  };

  // -- votes -------------------------------------------------------------------------------------------

  const votes = make("span", { className: "quiet" });
  const vote = make("button", {
    type: "button",
    part: "vote",
    onclick: () => attempt(async () => {
      await toggleVote(call, visitor, product, comment);
      showVotes();
    }),
  }, text.helpful, " ", votes);
  const showVotes = () => {
    vote.ariaPressed = String(hasVoted(visitor(), comment.id));
    votes.textContent = text.number(comment.votes);
  };
  showVotes();
  if (canReact && !isMine) row.append(vote);
  else if (comment.votes) row.append(make("span", { className: "quiet" }, text.foundHelpful(comment.votes)));

  // -- replies -----------------------------------------------------------------------------------------

  const toggle = make("button", { type: "button", className: "link", ariaExpanded: "false", onclick: () => attempt(open) });
  const list = make("ol", { part: "replies" });
  const more = make("button", { type: "button", onclick: () => attempt(loadMore) }, text.moreReplies);
  const showCount = () => { toggle.textContent = comment.replies ? text.replies(comment.replies) : text.reply; };
  showCount();
  if (canReact || comment.replies) row.append(toggle);

  async function open() {
    if (thread) {
      thread.remove();
      thread = null;
    } else {
      [replies, cursor] = [[], undefined];
      if (comment.replies) await load();
      thread = make("div", { part: "thread" }, list, more, canReact ? form() : make("p", { className: "quiet" }, text.signInToReply));
      show();
      row.after(thread);
      if (!comment.replies) thread.querySelector("textarea")?.focus();
    }
    toggle.ariaExpanded = String(Boolean(thread));
  }

  async function load() {
    const page = await call("getReplies", { ...address, limit: PAGE, cursor }, { signed: false });
    cursor = page.cursor ?? undefined;
    add(...page.items);
  }

  /** Add replies in the order of their ids, which is that of time. A reply posted here may come again in a page. */
  function add(...some) {
    const all = new Map([...replies, ...some].map((one) => [one.id, one]));
    replies = [...all.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  function show() {
    list.replaceChildren(...replies.map(one));
    more.hidden = !cursor;
    showCount();
  }

  async function loadMore() {
    const known = new Set(replies);
    await load();
    show();
    list.children[replies.findIndex((reply) => !known.has(reply))]?.focus();
  }

  function one(reply) {
    const said = make("p", { part: "text", lang: reply.language, dir: "auto" }, reply.text);
    const head = make("p", { className: "row" }, ...signature(reply, { language, words }));
    if (visitor() && reply.author === visitor()) head.append(deleteButton(() => attempt(() => remove(reply)), text));
    return make("li", { part: "reply", tabIndex: -1 }, head, said);
  }

  async function remove(reply) {
    await call("deleteReply", { ...address, reply: reply.id });
    replies = replies.filter((other) => other !== reply);
    comment.replies -= 1;
    show();
    toggle.focus();
  }

  function form() {
    const field = make("textarea", { maxLength: LONGEST, rows: 2, required: true });
    const submit = make("button", {}, text.postReply);
    const name = visitor() ? [] : [nameField(words)];
    const made = make("form", { part: "form" }, make("label", {}, text.yourReply, field), ...name, submit);
    made.addEventListener("submit", (event) => {
      event.preventDefault();
      attempt(async () => {
        const reply = await call("postReply", { ...address, text: field.value }, { idempotencyKey: key });
        key = newKey();
        field.value = "";
        add(reply);
        comment.replies += 1;
        show();
        replied(reply);
      });
    });
    return made;
  }

  return [row, problem];
}

const newKey = () => crypto.getRandomValues(new Uint32Array(4)).join("-"); // the same for each retry of a reply
