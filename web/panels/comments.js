// The comments panel: a product's average rating, filters with counts, an endless list, and a form for your own comment.

import { api } from "../lib/config.js";
import { count, decimal, language as pageLanguage } from "../lib/language.js";
import { userId } from "../lib/session.js";
import { words } from "../lib/words.js";
import * as editor from "./comment-editor.js";
import { chooser, emptyState, Panel, remember } from "./panel.js";
import { byline, closeReplies, reactions } from "./reactions.js";
import { html, nothing, repeat } from "../vendor/lit.js";

const PAGE = 10;
const STARS = [5, 4, 3, 2, 1];
const text = words.comments;
const LANGUAGES = text.languages;

let product = "", all = null, byStars = null, byLanguage = {}, items = [], cursor = null;
let filter = { ratings: [], language: "" };
let isPaged = false, isNewer = false, isLoading = false, isChanged = true;

const panel = new Panel("comments", {
  load,
  template,
  lines: () => `<script type="module"
  src="${api}web/widgets/comments.js"></script>
<hubbub-comments product="${product}"
  language="${pageLanguage}">
</hubbub-comments>`,
  tools: () => chooser(text.product, product, show),
  about: { script: "panels/comments.js", module: "chalicelib/comments", documented: "comments" },
});

export function start() {
  show(remember("product") || "demo");
}

/** Load the panel again, after the visitor signed in under another name. */
export const refresh = () => panel.refresh();

function show(given) {
  product = given.trim();
  remember("product", product);
  [all, byStars, byLanguage, items, cursor, isPaged] = [null, null, {}, [], null, false];
  filter = { ratings: [], language: "" };
  isChanged = true;
  editor.close();
  closeReplies();
  panel.restart(`product:${product}`, changed);
}

/** Load the statistics and, if they or the filter have changed, the rest. A product without comments is one call. */
async function load() {
  const requested = product;
  const total = await loadStatistics("");
  if (requested !== product) return;
  if (!isChanged && JSON.stringify(total) === JSON.stringify(all)) return;
  const tags = total.total ? Object.keys(LANGUAGES) : [];
  const languages = await Promise.all(tags.map((language) => loadStatistics(language)));
  if (requested !== product) return;
  [all, isChanged] = [total, false];
  byLanguage = Object.fromEntries(tags.map((language, i) => [language, languages[i].total]));
  byStars = (filter.language && total.total ? languages[tags.indexOf(filter.language)] : total).ratings;
  if (!total.total) [items, cursor] = [[], null];
  else if (!isPaged) await loadFirstPage();
}

const loadStatistics = (language) => panel.api.getStatistics({ product, language: language || undefined });

const query = () => ({ product, rating: filter.ratings.join(",") || undefined, language: filter.language || undefined, limit: PAGE });

async function loadFirstPage() {
  const requested = filter;
  const page = await panel.api.getComments(query());
  if (requested !== filter) return;
  [items, cursor, isPaged, isNewer] = [page.items, page.cursor, false, false];
}

/** Append the next page. A page can be short or empty although more pages follow. */
async function loadNextPage() {
  if (isLoading || !cursor) return;
  isLoading = true;
  const requested = filter;
  await panel.act(async () => {
    const page = await panel.api.getComments({ ...query(), cursor });
    if (requested !== filter) return;
    const known = new Set(items.map(({ id }) => id));
    items = [...items, ...page.items.filter(({ id }) => !known.has(id))];
    [cursor, isPaged] = [page.cursor, true];
  });
  isLoading = false;
}

function changed(value) {
  if (!value || (all && value.total === all.total && JSON.stringify(value.ratings) === JSON.stringify(all.ratings))) return;
  isNewer = isPaged && value.total > (all?.total ?? 0);
  panel.refreshSoon();
}

const choose = (changes) => panel.act(async () => {
  filter = { ...filter, ...changes };
  [isPaged, isChanged, cursor] = [false, true, null]; // a cursor is valid only for the query that returned it
  panel.draw();
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
    ${all?.total ? html`<div class="two">${filters()}${list()}</div>` : emptyState(text.none(product), text.first)}
    ${ownComment()}`;
}

function ownComment() {
  const done = (message) => {
    [isPaged, isChanged] = [false, true];
    panel.refresh();
    return message;
  };
  const mine = items.find(({ author }) => author === userId());
  return editor.template({ panel, product, done, mine: mine?.id });
}

function filters() {
  const { average, total } = all, most = Math.max(1, ...Object.values(byStars));
  return html`
    <div class="detail">
      <p class="standing"><strong id="average">${decimal(average, 2)}</strong> ${text.of5}
        <span class="quiet" id="total">${text.count(total)}</span></p>
      <div class="stars" role="group" aria-label=${text.byStars}>
        ${STARS.map((stars) => html`
          <button type="button" aria-pressed=${filter.ratings.includes(stars)} @click=${() => toggle(stars)}>
            <span aria-hidden="true">${stars} ★</span><span class="hidden">${text.stars(stars)}</span>
            <span class="bar" .style=${`--share: ${byStars[stars] / most}`}></span>
            <span class="number">${count.format(byStars[stars])}</span>
          </button>`)}
      </div>
      <div class="chips" role="group" aria-label=${text.byLanguage}>
        ${Object.entries({ "": words.all, ...LANGUAGES }).map(([language, label]) => html`
          <button type="button" aria-pressed=${filter.language === language} @click=${() => choose({ language })}>
            ${label} <span class="number">${count.format(language ? byLanguage[language] : total)}</span>
          </button>`)}
      </div>
    </div>`;
}

function list() {
  return html`
    <div>
      ${isNewer ? html`<button type="button" @click=${() => choose({})}>${text.newer}</button>` : nothing}
      <ol class="comments" aria-label=${text.newestFirst}>
        ${repeat(items, ({ id }) => id, one)}
      </ol>
      ${items.length || cursor ? nothing : html`<p class="quiet">${text.noMatch}</p>`}
      ${cursor ? html`<button type="button" class="more" @click=${loadNextPage}>${words.more}</button>` : nothing}
    </div>`;
}

function one(comment) {
  const { id, author, rating, language, text: said } = comment;
  return html`
    <li data-id=${id}>
      <p class="by"><span class="rating" role="img" aria-label=${text.stars(rating)}>${"★".repeat(rating)}<span
        class="none">${"★".repeat(5 - rating)}</span></span>
        ${byline(comment, LANGUAGES[language] ?? language)}
        ${author === userId() ? html`<button type="button" class="plain" @click=${() => edit(id)}>${text.edit}</button>`
          : nothing}
      </p>
      <p class="text" lang=${language} dir="auto">${said}</p>
      ${reactions(panel, product, comment)}
    </li>`;
}

const edit = (id) => panel.act(async () => {
  await editor.open(panel, product, id);
});
