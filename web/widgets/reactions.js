// Votes for a comment, the button that opens its replies, and the one that reports it.

import { make } from "../lib/dom.js";
import { attempts, deleteButton, signature } from "./comment.js";
import { remembered } from "./remembered.js";
import { paragraphs } from "./text.js";

// The API counts votes and does not list them. A vote from another browser is unknown here. Casting it again changes
// nothing.
const [readVotes, writeVotes] = remembered("hubbub.votes", 1000);

/**
 * Create the elements of a comment's votes and replies. `send` sends a call as the visitor, whose id `visitor` returns.
 * A guest has no id before the first call. Visitors who cannot react, because they are not signed in, see the numbers.
 */
export function reactions(comment, widget, { product, isMine, mayReact, visitor, send }) {
  const { text } = widget, address = { product, id: comment.id };
  const [problem, attempt] = attempts(widget);
  const row = make("div", { part: "reactions", className: "row" });
  let thread = null;

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
    const own = `${visitor()} ${comment.id}`;
    writeVotes([...readVotes().filter((other) => other !== own), ...(isCast ? [own] : [])]);
    showVotes();
  }

  // -- replies and reports -----------------------------------------------------------------------------

  const toggle = make("button", { type: "button", className: "link", ariaExpanded: "false", onclick: () => attempt(open) });
  const showCount = () => { toggle.textContent = comment.replies ? text.replies(comment.replies) : text.reply; };

  /** Create the button that opens the form of a report below an element. */
  function reportButton(above, more) {
    const report = (reason) => send("POST products/{product}/comments/{id}/reports", { ...address, ...more, reason });
    let press;
    const load = async () => {
      press ??= (await import("./opened.js")).reportForm(button, above, text, attempts(widget), report);
      press();
    };
    const button = make("button", { type: "button", className: "link", ariaExpanded: "false", onclick: () => attempt(load) }, text.report);
    return button;
  }

  showCount();
  if (mayReact || comment.replies) row.append(toggle);
  if (mayReact && !isMine) row.append(reportButton(row));

  function draw(reply, remove) {
    const head = make("p", { className: "row" }, ...signature(reply, widget)), said = paragraphs(reply);
    if (visitor() && reply.author === visitor()) head.append(deleteButton(() => attempt(remove), text.delete, text.deleteReply));
    else if (mayReact) head.append(reportButton(said, { reply: reply.id }));
    return make("li", { part: "reply", tabIndex: -1 }, head, said);
  }

  async function open() {
    const isOpen = thread?.element.isConnected;
    thread ??= (await import("./opened.js")).replies(comment, widget, { address, mayReact, visitor, send, draw, attempt, toggle, showCount });
    if (isOpen) thread.element.remove();
    else {
      await thread.load();
      row.after(thread.element);
      if (!comment.replies) thread.element.querySelector("textarea")?.focus();
    }
    toggle.ariaExpanded = String(!isOpen);
  }

  return [row, problem];
}
