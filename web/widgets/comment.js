// One comment, and the form that creates or edits a comment.

import { make, stars } from "../lib/dom.js";
import { nameField } from "./element.js";

export const LONGEST = 5000; // characters of a text

/** Create a delete button. It deletes when it is pressed again within four seconds. */
export function deleteButton(remove, text) {
  const button = make("button", { type: "button", className: "link", onclick: press }, text.delete);
  function press() {
    if (button.dataset.confirming) {
      remove();
      return;
    }
    button.dataset.confirming = "yes";
    button.textContent = text.reallyDelete;
    setTimeout(() => {
      delete button.dataset.confirming;
      button.textContent = text.delete;
    }, 4000);
  }
  return button;
}

/** Create the author and the time of a comment or a reply. */
export function signature({ author, name, created, edited }, { language, words }) {
  const time = make(
    "time",
    { dateTime: created, title: new Date(created).toLocaleString(language) },
    new Intl.DateTimeFormat(language, { dateStyle: "medium" }).format(new Date(created)),
  );
  return [
    make("strong", { part: "author" }, name ?? author),
    make("span", { className: "quiet" }, time, edited ? `, ${words.comments.edited}` : ""),
  ];
}

/**
 * Create the element of a comment, with the elements of its `reactions`. Its author can edit and delete it: `read`
 * returns its current version, `edit` and `remove` change it, and their errors are shown.
 */
export function entry(comment, { language, words, isMine, reactions, read, edit, remove }) {
  const text = words.comments;
  const { author, rating } = comment;
  const head = make("p", { part: "head", className: "row" }, stars(rating, text.starsOf5(rating)), ...signature(comment, { language, words }));
  const said = make("p", { part: "text" }, comment.text);
  said.lang = comment.language;
  said.dir = "auto";
  const problem = make("p", { className: "problem", role: "alert" });
  const shown = make("li", { part: isMine ? "comment mine" : "comment", tabIndex: -1 }, head, said, problem, ...reactions);
  Object.assign(shown.dataset, { id: comment.id, author });
  if (!isMine) return shown;

  const attempt = async (work) => {
    problem.textContent = "";
    try {
      await work();
    } catch (error) {
      problem.textContent = errorText(error, words);
    }
  };
  const change = make("button", { type: "button", className: "link", onclick: () => attempt(startEditing) }, text.edit);
  const drop = deleteButton(() => attempt(remove), text);
  const tools = make("span", { part: "tools" }, change, drop);
  head.append(tools);

  async function startEditing() {
    const now = await read();
    const fields = form({
      words,
      button: text.save,
      comment: now,
      send: (values) => edit(values, now.etag),
      cancel: () => {
        fields.replaceWith(said);
        tools.hidden = false;
        change.focus();
      },
    });
    said.replaceWith(fields);
    tools.hidden = true;
    fields.querySelector(":checked").focus();
  }

  return shown;
}

/**
 * Create the form for a new comment, or for one that is edited. It shows the errors of `send`. `asksName` adds a field
 * for the name of a guest.
 */
export function form({ words, button, comment, asksName, send, cancel }) {
  const text = words.comments;
  const problem = make("p", { className: "problem", role: "alert" });
  const choices = [1, 2, 3, 4, 5].map((rating) => {
    const choice = make("input", {
      type: "radio", name: "rating", value: String(rating), required: true, ariaLabel: text.stars(rating),
    });
    choice.defaultChecked = comment?.rating === rating;
    return make("label", {}, choice, make("span", { ariaHidden: "true" }, "★"));
  });
  const said = make("textarea", { name: "text", maxLength: LONGEST, rows: 3 });
  said.defaultValue = comment?.text ?? "";
  const submit = make("button", { className: "primary" }, button);
  const made = make(
    "form",
    { part: "form" },
    make("fieldset", {}, make("legend", {}, text.rating), make("div", { className: "choose" }, ...choices)),
    make("label", {}, text.text, said),
    ...(asksName ? [nameField(words)] : []),
    make("div", { className: "row" }, submit, ...(cancel ? [make("button", { type: "button", onclick: cancel }, text.cancel)] : [])),
    problem,
  );
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    problem.textContent = "";
    submit.disabled = true;
    try {
      const { rating, ...rest } = Object.fromEntries(new FormData(made));
      await send({ rating: Number(rating), ...rest });
    } catch (error) {
      problem.textContent = errorText(error, words);
    }
    submit.disabled = false;
  });
  return made;
}

/** Return the text of an error for the visitor. */
export function errorText(error, words) {
  if (error.status === 412) return words.comments.changedElsewhere;
  return error.status ? error.message : words.noResponse;
}
