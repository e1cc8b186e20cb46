// One comment, and the form that creates or edits a comment. `widget` is the element that shows them.

import { make, onSubmit, stars } from "../lib/dom.js";
import { paragraphs } from "./text.js";

const LONGEST = 5000; // characters of a text
const PATIENCE = 4000; // ms in which a button must be pressed again

/** Create a button that deletes something when it is pressed again within four seconds. */
export function deleteButton(remove, label, question) {
  const button = make("button", { type: "button", className: "link", onclick: press }, label);
  let timer = 0;
  function press() {
    if (timer) return remove();
    button.textContent = question;
    timer = setTimeout(() => {
      timer = 0;
      button.textContent = label;
    }, PATIENCE);
  }
  return button;
}

/** Create the author and the time of a comment or a reply. With an `href`, the time is its permanent link. */
export function signature({ author, name, created, edited, state, verified }, { formats, text }, href) {
  const time = make("time", { dateTime: created, title: formats.localTime(created) }, formats.localDate(created));
  return [
    make("strong", { part: "author", dir: "auto" }, name ?? author),
    ...(verified ? [make("span", { part: "verified", className: "quiet" }, `✓ ${text.verified}`)] : []),
    make("span", { className: "quiet" }, href ? make("a", { href, part: "permalink" }, time) : time, edited ? `, ${text.edited}` : ""),
    ...(state === "pending" ? [make("em", { part: "pending" }, text.pending)] : []),
  ];
}

/** Create the line for the errors of an action, and a function that runs one action at a time and shows its error. */
export function attempts(widget) {
  const problem = make("p", { className: "problem", role: "alert" });
  let isBusy = false;
  const attempt = async (work) => {
    if (isBusy) return;
    isBusy = true;
    problem.textContent = "";
    try {
      await work();
    } catch (error) {
      problem.textContent = widget.explain(error);
    }
    isBusy = false;
  };
  return [problem, attempt];
}

/**
 * Create the element of a comment, with the elements of its `reactions`. Its author can edit and delete it: `read`
 * returns its current version, `edit` and `remove` change it.
 */
export function entry(comment, widget, { isMine, ratings, reactions, read, edit, remove }) {
  const { author, rating } = comment, { text } = widget;
  const link = `${location.href.split("#")[0]}#comment-${comment.id}`;
  const head = make("p", { part: "head", className: "row" }, ...(rating ? [stars(rating, text.starsOf5(rating))] : []), ...signature(comment, widget, link));
  const said = paragraphs(comment);
  const [problem, attempt] = attempts(widget);
  const shown = make("li", { part: isMine ? "comment mine" : "comment", tabIndex: -1 }, head, said, problem, ...reactions);
  Object.assign(shown.dataset, { id: comment.id, author });
  if (!isMine) return shown;

  const change = make("button", { type: "button", className: "link", onclick: () => attempt(startEditing) }, text.edit);
  const tools = make("span", { part: "tools" }, change, deleteButton(() => attempt(remove), text.delete, text.deleteComment));
  head.append(tools);

  async function startEditing() {
    const now = await read();
    const fields = form(widget, {
      button: text.save,
      comment: now,
      ratings,
      send: (values) => edit(values, now.etag),
      cancel: () => {
        fields.replaceWith(said);
        tools.hidden = false;
        change.focus();
      },
    });
    said.replaceWith(fields);
    tools.hidden = true;
    (fields.querySelector(":checked") ?? fields.querySelector("textarea")).focus();
  }

  return shown;
}

/**
 * Create the form for a new comment, or for a `comment` that is edited and that `cancel` leaves as it is. Its
 * `ratings` are required, optional or off.
 */
export function form(widget, { button, comment, ratings, send, cancel }) {
  const { text } = widget, [problem, attempt] = attempts(widget);
  const choices = [1, 2, 3, 4, 5].map((rating) => {
    const choice = make("input", {
      type: "radio", name: "rating", value: String(rating), required: ratings === "required", ariaLabel: text.stars(rating), defaultChecked: comment?.rating === rating,
    });
    return make("label", {}, choice, make("span", { ariaHidden: "true" }, "★"));
  });
  const askForText = () => {
    said.required = ratings !== "required" && !choices.some((choice) => choice.firstChild.checked);
  };
  const clear = () => {
    choices.forEach((choice) => (choice.firstChild.checked = false));
    askForText();
  };
  const none = ratings === "optional" ? [make("button", { type: "button", className: "link", onclick: clear }, text.noRating)] : [];
  const said = make("textarea", { name: "text", maxLength: LONGEST, rows: 3, defaultValue: comment?.text ?? "" });
  const submit = make("button", { className: "primary" }, button);
  const made = make(
    "form",
    { part: "form", onchange: askForText },
    ...(ratings === "off" ? [] : [make("fieldset", {}, make("legend", {}, text.rating), make("div", { className: "choose" }, ...choices, ...none))]),
    make("label", {}, text.text, said),
    ...(widget.isGuest && !comment ? [widget.nameField()] : []),
    make("div", { className: "row" }, submit, ...(cancel ? [make("button", { type: "button", onclick: cancel }, text.cancel)] : [])),
    problem,
  );
  askForText();
  onSubmit(made, () => attempt(async () => {
    submit.disabled = true;
    try {
      const rating = ratings === "off" ? undefined : Number(new FormData(made).get("rating")) || null;
      await send({ rating, text: said.value });
    } finally {
      submit.disabled = false;
    }
  }));
  return made;
}
