// The lists of the dashboard: pages, with a search and their growth, sources, campaigns, goals and traits.

import { readable } from "../lib/labels.js";
import { download } from "../lib/csv.js";
import { count, language, percent, words } from "../lib/pages.js";
import { change, direction, growth, pathOf } from "./compare.js";
import { nameDays } from "./data.js";
import { LISTED } from "./periods.js";
import { TRAITS } from "./state.js";
import { html, nothing, repeat } from "../vendor/lit.js";

const SHOWN = 12;
const text = words.dashboard;

let sought = "", order = "most", isLong = false;

/** Render the pages of the period. A page that is pressed filters the view. */
export function pagesCard({ pages, before, period }, view, show, draw) {
  const isGrowth = order === "grown" && before?.pages;
  const all = (before?.pages ? growth(pages, before.pages) : pages.items.map((page) => ({ ...page, by: null })))
    .sort((first, other) => (isGrowth ? (other.by ?? 0) - (first.by ?? 0) : 0) || other.views - first.views);
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

/** Render a card with a table of names and numbers. `rows` have a name, its number, and what else a row shows. */
function card(id, title, rows, { file, head, listedDays, page, none, tools = nothing }) {
  const most = Math.max(1, ...rows.map(({ number }) => number));
  const save = () => download(file, head.map((name) => name.replace("Column", "")), rows.map(({ name, number, more }) => [name, number, ...(more ?? [])]));
  return html`<section class="card" id=${id} aria-labelledby="${id}-title">
    <div class="card-head"><h2 id="${id}-title">${title}</h2>
      <button type="button" class="csv" @click=${save} aria-label=${text.csvOf(title)}>CSV</button></div>
    ${tools}
    ${days(listedDays)}
    ${page ? html`<p class="quiet">${text.ofWholeSite}</p>` : nothing}
    ${rows.length ? html`<table class="ranked"><thead><tr>${head.map((name, column) => html`<th scope="col"
        class=${column ? "number" : ""}>${text[name] ?? name}</th>`)}</tr></thead>
      <tbody>${repeat(rows.slice(0, SHOWN), ({ name }) => name, ({ name, label = name, number, more = [], open, inner }) => html`<tr>
        <td>${open ? html`<button type="button" class="choice" title=${name} aria-expanded=${Boolean(inner)} @click=${open}>${label}</button>`
          : html`<span class="choice" title=${name}>${label}</span>`}
          <span class="bar" .style=${`--share: ${number / most}`}></span></td>
        <td class="number">${count(number)}</td>${more.map((value) => html`<td class="number">${value}</td>`)}</tr>
        ${(inner ?? []).map(({ referrer, views }) => html`<tr class="inner"><td><span class="choice quiet" title=${referrer}>${referrer}</span></td>
          <td class="number quiet">${count(views)}</td></tr>`)}`)}</tbody></table>`
      : html`<p class="quiet">${none}</p>`}
  </section>`;
}

let opened = "", hosts = []; // the source that shows its hosts

/** Render where visitors came from: the sources, each of which opens to its hosts. */
export function referrersCard({ referrers, period, listedDays }, { site, page }, load, draw) {
  const open = async (source) => {
    [opened, hosts] = [opened === source ? "" : source, []];
    draw();
    if (opened) hosts = await load(source).catch(() => []);
    draw();
  };
  const rows = referrers.map(({ referrer, views }) => (referrer === "direct" ? { name: referrer, label: text.direct, number: views }
    : { name: referrer, number: views, open: () => open(referrer), inner: referrer === opened ? hosts : undefined }));
  return card("referrers", text.referrers, rows, {
    file: `${site}-referrers-${period.from}.csv`, head: ["referrer", "viewsColumn"], listedDays, page, none: text.unknownDays,
  });
}

/** Render the campaigns. Few sites have any, so an empty list is left out. */
export function campaignsCard({ campaigns, period, listedDays }, { site, page }) {
  const rows = campaigns.map(({ campaign, views }) => ({ name: campaign, number: views }));
  return rows.length ? card("campaigns", text.campaigns, rows, {
    file: `${site}-campaigns-${period.from}.csv`, head: ["campaign", "viewsColumn"], listedDays, page,
  }) : nothing;
}

/** Render the goals, their events, their visitors and the share of the site's visitors. An empty list is left out. */
export function goalsCard({ goals, period, listedDays, series }, { site, page }) {
  const all = page || listedDays ? null : series.visitors;
  const rows = goals.map(({ goal, events, visitors }) => ({
    name: goal, number: events, more: [count(visitors), all ? percent(visitors / all) : ""],
  }));
  return rows.length ? card("goals", text.goals, rows, {
    file: `${site}-goals-${period.from}.csv`, head: ["goal", "events", "visitorsColumn", "share"], listedDays, page,
  }) : nothing;
}

/** Render the countries of the views. */
export function countriesCard({ countries, period, listedDays }, { site, page }) {
  return card("countries", text.countries, countries.map(traitRow("country")), {
    file: `${site}-countries-${period.from}.csv`, head: ["country", "viewsColumn"], listedDays, page, none: text.unknownDays,
  });
}

/** Render the devices, browsers, systems or languages of the views. */
export function traitsCard({ traits, period, listedDays }, { site, page, by }, show) {
  const tools = html`<fieldset class="switch"><legend class="hidden">${text.devices}</legend>
    ${TRAITS.map((name) => html`<label><input type="radio" name="by" value=${name} .checked=${name === by}
      @change=${() => show({ by: name })}><span>${text[name]}</span></label>`)}</fieldset>`;
  return card("devices", text.devices, traits.map(traitRow(by)), {
    file: `${site}-${by}-${period.from}.csv`, head: [by, "viewsColumn"], listedDays, page, none: text.unknownDays, tools,
  });
}

const traitRow = (by) => ({ name, views }) => ({ name, label: text.words[name] ?? nameOf(by, name), number: views });

/** Name a country or a language in the language of the page. */
function nameOf(by, code) {
  const type = { country: "region", language: "language" }[by];
  return type ? new Intl.DisplayNames([language], { type }).of(code) : code;
}
