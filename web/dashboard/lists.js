// The lists of the dashboard: pages, with a search and their growth, referrers and campaigns.

import { readable } from "../lib/addresses.js";
import { download } from "../lib/csv.js";
import { count } from "../lib/language.js";
import { words } from "../lib/words.js";
import { change, direction, growth, pathOf } from "./compare.js";
import { nameDays } from "./data.js";
import { LISTED } from "./periods.js";
import { html, nothing, repeat } from "../vendor/lit.js";

const SHOWN = 12;
const text = words.dashboard;

let sought = "", order = "most", isLong = false;

/** Render the pages of the period. A page that is pressed filters the view. */
export function pagesCard({ pages, before, period }, view, show, draw) {
  const isGrowth = order === "grown" && before?.pages;
  const all = (before?.pages ? growth(pages, before.pages) : pages.items.map((page) => ({ ...page, by: null })))
    .sort((one, other) => (isGrowth ? (other.by ?? 0) - (one.by ?? 0) : 0) || other.views - one.views);
  const found = all.filter(({ url }) => `${url} ${readable(url)}`.toLowerCase().includes(sought.toLowerCase()));
  const rows = isLong ? found : found.slice(0, SHOWN);
  const most = Math.max(1, ...all.map(({ views }) => views));
  const save = () => download(`${view.site}-pages-${period.from}.csv`, ["url", "views", ...(before?.pages ? ["views before"] : [])],
    found.map(({ url, views, earlier }) => [url, views, ...(before?.pages ? [earlier ?? ""] : [])]));
  const set = (values) => {
    ({ sought = sought, order = order, isLong = isLong } = values);
    draw();
  };
  return html`<section class="card" id="pages" aria-labelledby="pages-title">
    <div class="card-head"><h2 id="pages-title">${text.pages}</h2>
      <button type="button" class="csv" @click=${save} aria-label=${text.csvOf(text.pages)}>CSV</button></div>
    ${days(pages.listedDays)}
    <div class="row tools-row">
      <label class="grow"><span class="hidden">${text.search}</span>
        <input type="search" name="sought" placeholder=${text.search} .value=${sought}
          @input=${(event) => set({ sought: event.target.value.trim() })}></label>
      ${before?.pages ? html`<fieldset class="switch"><legend class="hidden">${text.order}</legend>
        ${[["most", text.most], ["grown", text.grown]].map(([name, label]) => html`<label><input type="radio" name="order"
          value=${name} .checked=${order === name} @change=${() => set({ order: name })}><span>${label}</span></label>`)}
      </fieldset>` : nothing}
    </div>
    ${rows.length ? table(rows, most, view, show, before) : html`<p class="quiet">${sought ? text.noMatch : text.noPages}</p>`}
    ${found.length > SHOWN ? html`<button type="button" class="quiet-button" @click=${() => set({ isLong: !isLong })}>${
      isLong ? text.fewer : pages.isWhole === false ? text.mostOf(found.length) : text.allOf(found.length)}</button>` : nothing}
    ${pages.complete === false ? html`<p class="quiet">${text.incomplete}</p>` : nothing}
  </section>`;
}

function table(rows, most, view, show, before) {
  const oneOrigin = new Set(rows.map(({ url }) => new URL(url).origin)).size === 1;
  return html`<table class="ranked">
    <thead><tr><th scope="col">${text.page}</th><th scope="col" class="number">${text.viewsColumn}</th>
      ${before?.pages ? html`<th scope="col" class="number change-column">${text.changeColumn}</th>` : nothing}</tr></thead>
    <tbody>${repeat(rows, ({ url }) => url, ({ url, views, by, earlier }) => html`<tr>
      <td><button type="button" class="choice" title=${url} aria-pressed=${url === view.page}
        @click=${() => show({ page: url === view.page ? "" : url })}>${oneOrigin ? pathOf(url) : readable(url)}</button>
        <span class="bar" .style=${`--share: ${views / most}`}></span></td>
      <td class="number">${count(views)}</td>
      ${!before?.pages ? nothing : by === null ? html`<td></td>`
        : html`<td class="number change ${direction(by, 0)}" title=${text.before(words.viewsOf(earlier))}>${
        by ? `${by > 0 ? "+" : "−"}${count(Math.abs(by))}` : "±0"}<span class="hidden"> ${change(views, earlier)}</span></td>`}
    </tr>`)}</tbody></table>`;
}

/** Name the days of a list that has only the last days of a longer period. */
const days = (listed) => (listed ? html`<p class="quiet days">${text.lastDays(LISTED)} ${nameDays(listed)}</p>` : nothing);

/** Render where visitors came from: the other sites (`kind` is "referrer"), or the campaigns. */
export function sourcesCard(kind, { [`${kind}s`]: items, period, listedDays }, { site, page }) {
  // Few sites have campaigns, so an empty list of them is left out.
  if (kind === "campaign" && !items.length) return nothing;
  const id = `${kind}s`, title = text[id], most = Math.max(1, ...items.map(({ views }) => views));
  const save = () => download(`${site}-${id}-${period.from}.csv`, [kind, "views"], items.map((item) => [item[kind], item.views]));
  return html`<section class="card" id=${id} aria-labelledby="${id}-title">
    <div class="card-head"><h2 id="${id}-title">${title}</h2>
      <button type="button" class="csv" @click=${save} aria-label=${text.csvOf(title)}>CSV</button></div>
    ${days(listedDays)}
    ${page ? html`<p class="quiet">${text.ofWholeSite}</p>` : nothing}
    ${items.length ? html`<table class="ranked"><thead><tr><th scope="col">${text[kind]}</th>
      <th scope="col" class="number">${text.viewsColumn}</th></tr></thead>
      <tbody>${repeat(items.slice(0, SHOWN), (item) => item[kind], (item) => html`<tr>
        <td><span class="choice" title=${item[kind]}>${item[kind]}</span>
          <span class="bar" .style=${`--share: ${item.views / most}`}></span></td>
        <td class="number">${count(item.views)}</td></tr>`)}</tbody></table>`
      : html`<p class="quiet">${text.noReferrers}</p>`}
  </section>`;
}
