// One comment, and the form that creates or edits a comment.

import { make } from "./element.js";

const LONGEST = 5000; // characters of a text

/** Create a rating that screen readers can read. */
export function stars(rating) {
  return make("span", { className: "stars", role: "img", ariaLabel: `${rating} of 5 stars` }, "★".repeat(rating) + "☆".repeat(5 - rating));
}

/** Create a delete button. It deletes when it is pressed again within four seconds. */
export function deleteButton(remove, properties = {}) {
  const button = make("button", { type: "button", ...properties, onclick: press }, "Delete");
  function press() {
    if (button.dataset.confirming) {
      remove();
      return;
    }
    button.dataset.confirming = "yes";
    button.textContent = "Really delete?";
    setTimeout(() => {
      delete button.dataset.confirming;
      button.textContent = "Delete";
    }, 4000);
  }
  return button;
}

/**
 * Create the element of a comment. Its author can edit and delete it: `read` returns its current version, `edit` and
 * `remove` change it, and their errors are shown.
 */
export function entry(comment, { language, isMine, read, edit, remove }) {
  const { author, name, rating, text, created, edited } = comment;
  const time = make(
    "time",
    { dateTime: created, title: new Date(created).toLocaleString(language) },
    new Intl.DateTimeFormat(language, { dateStyle: "medium" }).format(new Date(created)),
  );
  const head = make("p", { part: "head", className: "row" }, stars(rating), make("strong", { part: "author" }, name ?? author));
  const when = make("span", { className: "quiet" }, time, edited ? ", edited" : "");
  head.append(when);
  const words = make("p", { part: "text" }, text);
  words.lang = comment.language;
  words.dir = "auto";
  const problem = make("p", { className: "problem", role: "alert" });
  const shown = make("li", { part: isMine ? "comment mine" : "comment", tabIndex: -1 }, head, words, problem);
  Object.assign(shown.dataset, { id: comment.id, author });
  if (!isMine) return shown;

  const attempt = async (work) => {
    problem.textContent = "";
    try {
      await work();
    } catch (error) {
      problem.textContent = errorText(error);
    }
  };
  const change = make("button", { type: "button", className: "link", onclick: () => attempt(startEditing) }, "Edit");
  const drop = deleteButton(() => attempt(remove), { className: "link" });
  const tools = make("span", { part: "tools" }, change, drop);
  head.append(tools);

  async function startEditing() {
    const now = await read();
    const fields = form({
      button: "Save",
      comment: now,
      send: (values) => edit(values, now.etag),
      cancel: () => {
        fields.replaceWith(words);
        tools.hidden = false;
        change.focus();
      },
    });
    words.replaceWith(fields);
    tools.hidden = true;
    fields.querySelector(":checked").focus();
  }

  return shown;
}

/** Create the form for a new comment, or for one that is edited. It shows the errors of `send`. */
export function form({ button, comment, send, cancel }) {
  const problem = make("p", { className: "problem", role: "alert" });
  const choices = [1, 2, 3, 4, 5].map((rating) => {
    const choice = make("input", {
      type: "radio", name: "rating", value: String(rating), required: true, ariaLabel: `${rating} ${rating === 1 ? "star" : "stars"}`,
    });
    choice.defaultChecked = comment?.rating === rating;
    return make("label", {}, choice, make("span", { ariaHidden: "true" }, "★"));
  });
  const words = make("textarea", { name: "text", maxLength: LONGEST, rows: 3 });
  words.defaultValue = comment?.text ?? "";
  const submit = make("button", { className: "primary" }, button);
  const made = make(
    "form",
    { part: "form" },
    make("fieldset", {}, make("legend", {}, "Your rating"), make("div", { className: "choose" }, ...choices)),
    make("label", {}, "Your comment", words),
    make("div", { className: "row" }, submit, ...(cancel ? [make("button", { type: "button", onclick: cancel }, "Cancel")] : [])),
    problem,
  );
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    problem.textContent = "";
    submit.disabled = true;
    try {
      const { rating, text } = Object.fromEntries(new FormData(made));
      await send({ rating: Number(rating), text });
    } catch (error) {
      problem.textContent = errorText(error);
    }
    submit.disabled = false;
  });
  return made;
}

function errorText(error) {
  if (error.status === 412) return "This comment was changed elsewhere in the meantime. Cancel, then edit it again.";
  if (error.status) return error.message;
  return "No response from the server. Please retry.";
}
