// The comments panel: a product's average rating, filters with counts, an endless list, and a form for your own comment.

import { encode } from "../lib/config.js";
import * as editor from "./comment-editor.js";
import { chooser, emptyState, Panel, remember } from "./panel.js";
import { userName } from "../lib/session.js";
import { html, nothing, repeat } from "../vendor/lit.js";
import { ago, count, LANGUAGES, plural } from "../lib/words.js";

const PAGE = 10;
const STARS = [5, 4, 3, 2, 1];

let product = "", all = null, byStars = null, byLanguage = {}, items = [], cursor = null;
let filter = { ratings: [], language: "" };
let isPaged = false, isNewer = false, isLoading = false;

const panel = new Panel("comments", {
  load,
  template,
  about: { script: "panels/comments.js", module: "chalicelib/comments", documented: "comments" },
});

export function start() {
  show(remember("product") || "demo");
}

/** Load the panel again, after the visitor signed in under another name. */
export const refresh = () => panel.refresh();

function show(text) {
  product = text.trim();
  remember("product", product);
  [all, byStars, byLanguage, items, cursor, isPaged] = [null, null, {}, [], null, false];
  filter = { ratings: [], language: "" };
  editor.close();
  panel.restart(`product:${product}`, changed);
}

const path = (rest) => `/products/${encode(product)}${rest}`;

async function load() {
  const requested = product;
  const [total, ...languages] = await Promise.all(["", ...Object.keys(LANGUAGES)].map((language) => loadStatistics(language)));
  if (requested !== product) return;
  all = total;
  byLanguage = Object.fromEntries(Object.keys(LANGUAGES).map((language, i) => [language, languages[i].total]));
  byStars = (filter.language ? languages[Object.keys(LANGUAGES).indexOf(filter.language)] : total).ratings;
  if (!isPaged) await loadFirstPage();
}

const loadStatistics = (language) => panel.api.get(path("/statistics"), { language });

const query = () => ({ rating: filter.ratings.join(","), language: filter.language, limit: PAGE });

async function loadFirstPage() {
  const requested = filter;
  const page = await panel.api.get(path("/comments"), query());
  if (requested !== filter) return;
  [items, cursor, isPaged, isNewer] = [page.items, page.cursor, false, false];
}

/** Append the next page. A page can be short or empty although more pages follow. */
async function loadNextPage() {
  if (isLoading || !cursor) return;
  isLoading = true;
  const requested = filter;
  await panel.act(async () => {
    const page = await panel.api.get(path("/comments"), { ...query(), cursor });
    if (requested !== filter) return;
    const known = new Set(items.map(({ id }) => id));
    items = [...items, ...page.items.filter(({ id }) => !known.has(id))];
    [cursor, isPaged] = [page.cursor, true];
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

// The next page is loaded shortly before the end of the list becomes visible.
const endOfList = new IntersectionObserver(
  (entries) => entries.some((entry) => entry.isIntersecting) && loadNextPage(),
  { rootMargin: "0px 0px 200px" },
);

function watch() {
  endOfList.disconnect();
  const button = document.querySelector("#comments .more");
  if (button && isPaged) endOfList.observe(button);
}

function template() {
  queueMicrotask(watch);
  return html`
    ${chooser("Product", product, show)}
    ${all?.total ? html`<div class="two">${filters()}${list()}</div>`
      : emptyState(`No comments on ${product} yet.`, "Write the first one below.")}
    ${ownComment()}`;
}

function ownComment() {
  const done = (message) => {
    isPaged = false;
    panel.refresh();
    return message;
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
        ${Object.entries({ "": "All", ...LANGUAGES }).map(([language, label]) => html`
          <button type="button" aria-pressed=${filter.language === language} @click=${() => choose({ language })}>
            ${label} <span class="number">${count.format(language ? byLanguage[language] : total)}</span>
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
      ${items.length || cursor ? nothing : html`<p class="quiet">No comments match this filter.</p>`}
      ${cursor ? html`<button type="button" class="more" @click=${loadNextPage}>More</button>` : nothing}
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
        ${author === userName() ? html`<button type="button" class="plain" @click=${() => edit(id)}>Edit</button>`
          : nothing}
      </p>
      <p class="text" lang=${language}>${text}</p>
    </li>`;
}

const edit = (id) => panel.act(async () => {
  await editor.open(panel, path(`/comments/${encode(id)}`));
});
