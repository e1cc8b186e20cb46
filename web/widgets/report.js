// The button and the form with which a reader reports a comment or a reply to the admins.

import { make, onSubmit } from "../lib/dom.js";
import { attempts } from "./comment.js";

const LONGEST = 500; // characters of a reason

/** Create the button that opens the form below a line of buttons. `send` sends the reason. */
export function reportButton(widget, line, send) {
  const { text } = widget, [problem, attempt] = attempts(widget), reason = make("input", { maxLength: LONGEST, required: true });
  const form = make("form", { part: "report" }, make("label", {}, text.reason, reason), make("button", {}, text.report), problem);
  const button = make("button", { type: "button", className: "link", ariaExpanded: "false", onclick: toggle }, text.report);

  function toggle() {
    const isOpen = form.isConnected;
    button.ariaExpanded = String(!isOpen);
    if (isOpen) return form.remove();
    line.after(form);
    reason.focus();
  }

  onSubmit(form, () => attempt(async () => {
    await send(reason.value);
    const done = make("span", { className: "quiet", role: "status", tabIndex: -1 }, text.reported);
    form.remove();
    button.replaceWith(done);
    done.focus();
  }));
  return button;
}
