// What loads when a reader opens it: the replies to a comment, and the form of a report.

import { make, onSubmit } from "../lib/dom.js";
import { newKey } from "./element.js";

const LONGEST = 2000; // characters of a reply
const LONGEST_REASON = 500;
const PAGE = 10;

/**
 * Create the `element` of the replies to a comment, which `load` fills from the first one. `send` sends a call as the
 * visitor, whose id `visitor` returns. `draw` creates the element of a reply, and `attempt` shows the error of an action.
 */
export function replies(comment, widget, { address, mayReact, visitor, send, draw, attempt, toggle, showCount }) {
  const { text } = widget;
  let shown = [], cursor, key = newKey();
  const list = make("ol", { part: "replies" });
  const more = make("button", { type: "button", onclick: () => attempt(loadMore) }, text.moreReplies);
  const element = make("div", { part: "thread" }, list, more, mayReact ? form() : make("p", { className: "quiet" }, text.signInToReply));

  async function load() {
    [shown, cursor] = [[], undefined];
    if (comment.replies || visitor()) await loadPage(); // one that is pending is not counted
    show();
  }

  async function loadPage() {
    const page = await widget.call("GET products/{product}/comments/{id}/replies", { ...address, limit: PAGE, cursor }, { signed: Boolean(visitor()) });
    cursor = page.cursor ?? undefined;
    add(...page.items);
  }

  /** Add replies in the order of their ids, which is that of time. A reply posted here may come again in a page. */
  function add(...items) {
    const all = new Map([...shown, ...items].map((reply) => [reply.id, reply]));
    shown = [...all.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  function show() {
    list.replaceChildren(...shown.map((reply) => draw(reply, () => remove(reply))));
    more.hidden = !cursor;
    showCount();
  }

  async function loadMore() {
    const known = new Set(shown);
    await loadPage();
    show();
    list.children[shown.findIndex((reply) => !known.has(reply))]?.focus();
  }

  async function remove(reply) {
    await send("DELETE products/{product}/comments/{id}/replies/{reply}", { ...address, reply: reply.id });
    shown = shown.filter((other) => other !== reply);
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

  return { element, load };
}

/**
 * Create the function that opens and closes the form of a report, below the element `above`. `send` sends the reason.
 * `attempt` calls a function and shows its error in the element `problem`.
 */
export function reportForm(button, above, text, [problem, attempt], send) {
  const reason = make("input", { maxLength: LONGEST_REASON, required: true });
  const form = make("form", { part: "report" }, make("label", {}, text.reason, reason), make("button", {}, text.report), problem);

  onSubmit(form, () => attempt(async () => {
    await send(reason.value);
    const done = make("span", { className: "quiet", role: "status", tabIndex: -1 }, text.reported);
    form.remove();
    button.replaceWith(done);
    done.focus();
  }));
  return () => {
    const isOpen = form.isConnected;
    button.ariaExpanded = String(!isOpen);
    if (isOpen) return form.remove();
    above.after(form);
    reason.focus();
  };
}
