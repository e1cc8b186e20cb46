// One comment as it is shown, and the form that writes or edits one.

import { make } from "./element.js";

const LONGEST = 5000; // characters of a text

/** Draw a rating, readable by a screen reader. */
export function stars(rating) {
  return make("span", { className: "stars", role: "img", ariaLabel: `${rating} of 5 stars` }, "★".repeat(rating) + "☆".repeat(5 - rating));
}

/** Make a button that asks first: the second press, within four seconds, deletes. */
export function deletes(remove, properties = {}) {
  const button = make("button", { type: "button", ...properties, onclick: press }, "Delete");
  function press() {
    if (button.dataset.sure) {
      remove();
      return;
    }
    button.dataset.sure = "yes";
    button.textContent = "Really delete?";
    setTimeout(() => {
      delete button.dataset.sure;
      button.textContent = "Delete";
    }, 4000);
  }
  return button;
}

/**
 * Show a comment; its author may edit and delete it. `read` answers it as it is now, `edit` and `remove`
 * change it; what they throw is shown to its author.
 */
export function entry(comment, { language, isMine, read, edit, remove }) {
  const { author, rating, text, created, edited } = comment;
  const time = make(
    "time",
    { dateTime: created, title: new Date(created).toLocaleString(language) },
    new Intl.DateTimeFormat(language, { dateStyle: "medium" }).format(new Date(created)),
  );
  const head = make("p", { part: "head", className: "row" }, stars(rating), make("strong", { part: "author" }, author));
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
      problem.textContent = saying(error);
    }
  };
  const change = make("button", { type: "button", className: "link", onclick: () => attempt(begin) }, "Edit");
  const drop = deletes(() => attempt(remove), { className: "link" });
  const tools = make("span", { part: "tools" }, change, drop);
  head.append(tools);

  async function begin() {
    const now = await read();
    const fields = form({
      button: "Save",
      comment: now,
      send: (said) => edit(said, now.etag),
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

/** Make a form for a new comment, or for one that is edited; what `send` throws is said in it. */
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
      problem.textContent = saying(error);
    }
    submit.disabled = false;
  });
  return made;
}

function saying(error) {
  if (error.status === 412) return "It was changed meanwhile, elsewhere: cancel, and edit it again.";
  if (error.status) return error.message;
  return "There is no answer: try again.";
}
