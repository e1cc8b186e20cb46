// The form that creates or edits the visitor's own comment. An edit sends If-Match, so it never overwrites a newer version.

import { language as pageLanguage } from "../lib/language.js";
import { userId } from "../lib/session.js";
import { words } from "../lib/words.js";
import { fields } from "./panel.js";
import { html, live, nothing } from "../vendor/lit.js";

const text = words.comments;
const EMPTY = { rating: 0, language: pageLanguage, text: "" };

let edited = null; // the comment that is being edited: its product and id, and its ETag
let chosen = { ...EMPTY }; // what the form shows; the page may be drawn again while the visitor fills it in
const written = new Map(); // the ids of the comments written here, by author and product; "" if it is unknown

const owner = (product) => `${userId()} ${product}`;

/** Load the current version of a comment into the form. */
export async function open(panel, product, id) {
  const { body, etag } = await panel.api.request("getComment", { product, id }, { auth: true });
  edited = { key: { product, id }, etag };
  chosen = { rating: body.rating, language: body.language, text: body.text };
  panel.draw();
  document.querySelector("#write textarea")?.focus();
}

export function close() {
  edited = null;
  chosen = { ...EMPTY };
}

/**
 * Render the form. An author has one comment on a product, so after it is written only an edit is offered. `mine` is
 * the id of the visitor's comment, if it is in the list. `done` is called with a message after a comment was
 * posted, saved or deleted.
 */
export function template({ panel, product, done, mine }) {
  const id = mine ?? written.get(owner(product));
  if (!edited && id !== undefined) return id ? thanks(panel, product, id) : html`<p class="quiet">${text.oneEach}</p>`;
  const { rating, language, text: said } = chosen;
  const keep = ({ target }) => {
    if (target.name in chosen) chosen[target.name] = target.name === "rating" ? Number(target.value) : target.value;
  };
  const submit = (event) => {
    const values = fields(event);
    const body = { ...values, rating: Number(values.rating) };
    panel.act(async () => done(edited ? await change(panel, body) : await write(panel, product, body)));
  };
  const cancel = () => {
    close();
    panel.draw();
  };
  const drop = () => panel.act(async () => done(await remove(panel, product)));
  return html`
    <form id="write" @submit=${submit} @input=${keep}>
      <h3>${edited ? text.editYours : text.write}</h3>
      <div class="row">
        <fieldset class="rate"><legend>${text.rating}</legend>
          ${[1, 2, 3, 4, 5].map((stars) => html`<label><input type="radio" name="rating" value=${stars} required
            .checked=${live(stars === rating)}><span aria-hidden="true">${stars} ★</span><span class="hidden">${
            text.stars(stars)}</span></label>`)}
        </fieldset>
        <label>${words.language} <select name="language" .value=${live(language)}>
          ${Object.entries(text.languages).map(([tag, label]) => html`<option value=${tag}
            ?selected=${tag === language}>${label}</option>`)}</select></label>
      </div>
      <label>${text.yours} <textarea name="text" rows="3" maxlength="5000" required .value=${live(said)}></textarea></label>
      <div class="row">
        <button class="primary" ?disabled=${!userId()}>${edited ? text.save : text.post}</button>
        ${edited ? html`<button type="button" @click=${cancel}>${words.cancel}</button>
          <button type="button" @click=${drop}>${text.delete}</button>` : nothing}
        ${userId() ? nothing : html`<p class="quiet">${text.signIn}</p>`}
      </div>
    </form>`;
}

function thanks(panel, product, id) {
  return html`<p class="row own"><span class="quiet">${text.written}</span>
    <button type="button" @click=${() => panel.act(() => open(panel, product, id))}>${text.editYours}</button></p>`;
}

async function write(panel, product, body) {
  try {
    const { id } = await panel.api.postComment({ product, ...body });
    written.set(owner(product), id);
  } catch (error) {
    if (error.status === 409) written.set(owner(product), ""); // it was written earlier
    throw error;
  }
  close();
  return text.posted;
}

/** Save the comment. If it was changed elsewhere in the meantime, load the current version instead of overwriting it. */
async function change(panel, body) {
  const { key, etag } = edited;
  try {
    await panel.api.patchComment({ ...key, ...body }, { ifMatch: etag });
  } catch (error) {
    if (error.code !== "PreconditionFailed") throw error;
    await open(panel, key.product, key.id);
    return text.changedElsewhere;
  }
  close();
  return text.saved;
}

async function remove(panel, product) {
  await panel.api.deleteComment(edited.key);
  written.delete(owner(product));
  close();
  return text.deleted;
}
