// The form that creates or edits the visitor's own comment. An edit sends If-Match, so it never overwrites a newer version.

import { encode } from "../lib/config.js";
import { fields } from "./panel.js";
import { userName } from "../lib/session.js";
import { html, live, nothing } from "../vendor/lit.js";
import { LANGUAGES } from "../lib/words.js";

const EMPTY = { rating: 5, language: "en", text: "" };

let edited = null; // the comment that is being edited: its path, its ETag and its fields

/** Load the current version of a comment into the form. */
export async function open(panel, path) {
  const { body, etag } = await panel.api.request("GET", path, { mine: true });
  edited = { path, etag, comment: body };
  panel.draw();
  document.querySelector("#write textarea")?.focus();
}

export function close() {
  edited = null;
}

/** Render the form. `done` is called with a message after a comment was posted, saved or deleted. */
export function template({ panel, product, done }) {
  const { rating, language, text } = edited?.comment ?? EMPTY;
  const submit = (event) => {
    const form = event.target, values = fields(event);
    const body = { ...values, rating: Number(values.rating) };
    panel.act(async () => done(edited ? await change(panel, body) : await write(panel, product, body, form)));
  };
  const cancel = () => {
    close();
    panel.draw();
  };
  const drop = () => panel.act(async () => done(await remove(panel)));
  return html`
    <form id="write" @submit=${submit}>
      <h3>${edited ? "Edit your comment" : "Write a comment"}</h3>
      <div class="row">
        <fieldset class="rate"><legend>Rating</legend>
          ${[1, 2, 3, 4, 5].map((stars) => html`<label><input type="radio" name="rating" value=${stars}
            .checked=${live(stars === rating)}><span>${stars}<span class="hidden"> stars</span></span></label>`)}
        </fieldset>
        <label>Language <select name="language" .value=${live(language)}>
          ${Object.entries(LANGUAGES).map(([tag, label]) => html`<option value=${tag}
            ?selected=${tag === language}>${label}</option>`)}</select></label>
      </div>
      <label>Your comment <textarea name="text" rows="3" maxlength="5000" required .value=${text}></textarea></label>
      <div class="row">
        <button class="primary" ?disabled=${!userName()}>${edited ? "Save" : "Post"}</button>
        ${edited ? html`<button type="button" @click=${cancel}>Cancel</button>
          <button type="button" @click=${drop}>Delete</button>` : nothing}
        ${userName() ? nothing : html`<p class="quiet">Sign in at the top of the page to comment.</p>`}
      </div>
    </form>`;
}

async function write(panel, product, body, form) {
  await panel.api.request("POST", `/products/${encode(product)}/comments`, { body });
  form.reset();
  return "Your comment was posted.";
}

/** Save the comment. If it was changed elsewhere in the meantime, load the current version instead of overwriting it. */
async function change(panel, body) {
  const { path, etag } = edited;
  try {
    await panel.api.request("PATCH", path, { body, headers: { "If-Match": etag } });
  } catch (error) {
    if (error.code !== "PreconditionFailed") throw error;
    await open(panel, path);
    return "The comment was changed elsewhere in the meantime. The form now shows the current version.";
  }
  close();
  return "Saved.";
}

async function remove(panel) {
  await panel.api.request("DELETE", edited.path);
  close();
  return "Deleted.";
}
