// Your own comment: written once, then changed only as it was when you saw it (ETag and If-Match).

import { part } from "./config.js";
import { fields } from "./panel.js";
import { you } from "./session.js";
import { html, live, nothing } from "./vendor/lit.js";

export const LANGUAGES = { en: "English", de: "Deutsch", fr: "Français", es: "Español" };
const EMPTY = { rating: 5, language: "en", text: "" };

let open_ = null; // the comment that is being edited: its path, its ETag, and what it said

/** Edit a comment: as it is now, whatever the list shows. */
export async function open(panel, path) {
  const { body, etag } = await panel.calls.ask("GET", path, { mine: true });
  open_ = { path, etag, comment: body };
  panel.draw();
  document.querySelector("#write textarea")?.focus();
}

export function close() {
  open_ = null;
}

/** The form to write a comment, or to edit one; `done` is called with what came of it. */
export function template({ panel, product, done }) {
  const { rating, language, text } = open_?.comment ?? EMPTY;
  const submit = (event) => {
    const form = event.target, given = fields(event);
    const body = { ...given, rating: Number(given.rating) };
    panel.act(async () => done(open_ ? await change(panel, body) : await write(panel, product, body, form)));
  };
  const cancel = () => {
    close();
    panel.draw();
  };
  const drop = () => panel.act(async () => done(await remove(panel)));
  return html`
    <form id="write" @submit=${submit}>
      <h3>${open_ ? "Edit your comment" : "Write a comment"}</h3>
      <div class="row">
        <fieldset class="rate"><legend>Stars</legend>
          ${[1, 2, 3, 4, 5].map((stars) => html`<label><input type="radio" name="rating" value=${stars}
            .checked=${live(stars === rating)}><span>${stars}<span class="hidden"> stars</span></span></label>`)}
        </fieldset>
        <label>Language <select name="language" .value=${live(language)}>
          ${Object.entries(LANGUAGES).map(([tag, named]) => html`<option value=${tag}
            ?selected=${tag === language}>${named}</option>`)}</select></label>
      </div>
      <label>What you think <textarea name="text" rows="3" maxlength="5000" required .value=${text}></textarea></label>
      <div class="row">
        <button class="primary" ?disabled=${!you()}>${open_ ? "Save" : "Comment"}</button>
        ${open_ ? html`<button type="button" @click=${cancel}>Cancel</button>
          <button type="button" @click=${drop}>Delete</button>` : nothing}
        ${you() ? nothing : html`<p class="quiet">To comment, say who you are (above).</p>`}
      </div>
    </form>`;
}

async function write(panel, product, body, form) {
  await panel.calls.ask("POST", `/products/${part(product)}/comments`, { body });
  form.reset();
  return "Your comment is there.";
}

/** Save; a comment that was changed elsewhere meanwhile is shown as it is, and nothing is lost. */
async function change(panel, body) {
  const { path, etag } = open_;
  try {
    await panel.calls.ask("PATCH", path, { body, headers: { "If-Match": etag } });
  } catch (error) {
    if (error.code !== "PreconditionFailed") throw error;
    await open(panel, path);
    return "It was changed elsewhere meanwhile. This is how it is now.";
  }
  close();
  return "Saved.";
}

async function remove(panel) {
  await panel.calls.ask("DELETE", open_.path);
  close();
  return "Deleted.";
}
