// A product's comments: how it is rated, filters with their counts, endless pages, and your own to write and edit.

import { part } from "./config.js";
import * as editor from "./editor.js";
import { chooser, nothingYet, Panel, remember } from "./panel.js";
import { you } from "./session.js";
import { html, nothing, repeat } from "./vendor/lit.js";
import { ago, count, plural } from "./words.js";

const PAGE = 10;
const STARS = [5, 4, 3, 2, 1];
const LANGUAGES = editor.LANGUAGES;

let product = "", all = null, byStars = null, byLanguage = {}, items = [], cursor = null;
let filter = { ratings: [], language: "" };
let isPaged = false, isNewer = false, isLoading = false;

const panel = new Panel("comments", {
  load,
  template,
  about: { script: "comments.js", module: "chalicelib/comments/comments.py", documented: "comments" },
});

export function start() {
  show(remember("product") || "demo");
}

/** Your name has changed. */
export const refresh = () => panel.refresh();

function show(text) {
  product = text.trim();
  remember("product", product);
  [all, byStars, byLanguage, items, cursor, isPaged] = [null, null, {}, [], null, false];
  filter = { ratings: [], language: "" };
  editor.close();
  panel.restart(`product:${product}`, changed);
}

const path = (rest) => `/products/${part(product)}${rest}`;

async function load() {
  const of = product;
  const [total, ...languages] = await Promise.all(["", ...Object.keys(LANGUAGES)].map((language) => sums(language)));
  if (of !== product) return;
  all = total;
  byLanguage = Object.fromEntries(Object.keys(LANGUAGES).map((language, i) => [language, languages[i].total]));
  byStars = (filter.language ? languages[Object.keys(LANGUAGES).indexOf(filter.language)] : total).ratings;
  if (!isPaged) await first();
}

const sums = (language) => panel.calls.get(path("/statistics"), { language });

const query = () => ({ rating: filter.ratings.join(","), language: filter.language, limit: PAGE });

async function first() {
  const asked = filter;
  const answer = await panel.calls.get(path("/comments"), query());
  if (asked !== filter) return;
  [items, cursor, isPaged, isNewer] = [answer.items, answer.cursor, false, false];
}

/** Add the next page; one page may be short, or empty, and yet not the last. */
async function more() {
  if (isLoading || !cursor) return;
  isLoading = true;
  const asked = filter;
  await panel.act(async () => {
    const answer = await panel.calls.get(path("/comments"), { ...query(), cursor });
    if (asked !== filter) return;
    const known = new Set(items.map(({ id }) => id));
    items = [...items, ...answer.items.filter(({ id }) => !known.has(id))];
    [cursor, isPaged] = [answer.cursor, true];
  });
  isLoading = false;
}

function changed(value) {
  isNewer = isPaged && value.total > (all?.total ?? 0);
  panel.refreshSoon();
}

const choose = (changes) => panel.act(async () => {
  filter = { ...filter, ...changes };
  isPaged = false;
  await load();
});

const toggle = (stars) => {
  const isIn = filter.ratings.includes(stars);
  choose({ ratings: isIn ? filter.ratings.filter((one) => one !== stars) : [...filter.ratings, stars].sort() });
};

// -- what is shown -------------------------------------------------------------------------------------

// The next page is asked for shortly before the end of this one comes into sight.
const sight = new IntersectionObserver(
  (entries) => entries.some((entry) => entry.isIntersecting) && more(),
  { rootMargin: "0px 0px 200px" },
);

function watch() {
  sight.disconnect();
  const button = document.querySelector("#comments .more");
  if (button && isPaged) sight.observe(button);
}

function template() {
  queueMicrotask(watch);
  return html`
    ${chooser("Product", product, show)}
    ${all?.total ? html`<div class="two">${filters()}${list()}</div>`
      : nothingYet(`Nobody has commented on ${product} yet.`, "Be the first, below.")}
    ${own()}`;
}

function own() {
  const done = (said) => {
    isPaged = false;
    panel.refresh();
    return said;
  };
  return editor.template({ panel, product, done });
}

function filters() {
  const { average, total } = all, most = Math.max(1, ...Object.values(byStars));
  return html`
    <div class="detail">
      <p class="standing"><strong id="average">${average.toFixed(2)}</strong> of 5
        <span class="quiet">${plural(total, "comment")}</span></p>
      <div class="stars" role="group" aria-label="Filter by stars">
        ${STARS.map((stars) => html`
          <button type="button" aria-pressed=${filter.ratings.includes(stars)} @click=${() => toggle(stars)}>
            <span aria-hidden="true">${stars} ★</span><span class="hidden">${plural(stars, "star")}</span>
            <span class="bar" .style=${`--share: ${byStars[stars] / most}`}></span>
            <span class="number">${count.format(byStars[stars])}</span>
          </button>`)}
      </div>
      <div class="chips" role="group" aria-label="Filter by language">
        ${Object.entries({ "": "All", ...LANGUAGES }).map(([language, named]) => html`
          <button type="button" aria-pressed=${filter.language === language} @click=${() => choose({ language })}>
            ${named} <span class="number">${count.format(language ? byLanguage[language] : total)}</span>
          </button>`)}
      </div>
    </div>`;
}

function list() {
  return html`
    <div>
      ${isNewer ? html`<button type="button" @click=${() => choose({})}>Show newer comments</button>` : nothing}
      <ol class="comments" aria-label="Comments, newest first">
        ${repeat(items, ({ id }) => id, one)}
      </ol>
      ${items.length || cursor ? nothing : html`<p class="quiet">No comment is like that.</p>`}
      ${cursor ? html`<button type="button" class="more" @click=${more}>More</button>` : nothing}
    </div>`;
}

function one(comment) {
  const { id, author, rating, language, text, created, edited } = comment;
  return html`
    <li data-id=${id}>
      <p class="by"><span class="rating" role="img" aria-label=${plural(rating, "star")}>${"★".repeat(rating)}<span
        class="none">${"★".repeat(5 - rating)}</span></span>
        <b>${author}</b>
        <span class="quiet">${LANGUAGES[language] ?? language}, ${ago(created)}${edited ? ", edited" : ""}</span>
        ${author === you() ? html`<button type="button" class="plain" @click=${() => edit(id)}>Edit</button>`
          : nothing}
      </p>
      <p class="text" lang=${language}>${text}</p>
    </li>`;
}

const edit = (id) => panel.act(async () => {
  await editor.open(panel, path(`/comments/${part(id)}`));
});
