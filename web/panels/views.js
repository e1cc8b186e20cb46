// The views panel: a site's most viewed pages, and one page's views of the last two days. The dashboard has the rest.

import { api } from "../lib/config.js";
import { count, dates, DAY, isoDate } from "../lib/language.js";
import { Bars } from "../lib/plots.js";
import { timeTicks } from "../lib/timeline.js";
import { words } from "../lib/words.js";
import { chooser, emptyState, fields, Panel, remember } from "./panel.js";
import { html, nothing, repeat } from "../vendor/lit.js";

const PAGES = 8;
const MAX_AGE = 30_000; // ms until the series is loaded again although no count has changed
const COUNT_TIMEOUT = 10_000; // ms within which an accepted view should be counted
const text = words.views;

let site = "", pages = [], page = "", figures = null, series = [], seriesAt = 0, isSending = false;
const bars = new Bars();

const panel = new Panel("views", {
  load,
  template,
  lines: () => `<script async
  src="${api}web/beacon.js"></script>
<img height="20" alt="${text.badge}"
  src="${api}views/badge.svg?url=${page || `https://${site}/`}">`,
  tools: () => html`${chooser(text.site, site, show)}${sender()}`,
  about: { script: "panels/views.js", module: "chalicelib/views", documented: "views" },
});

export function start() {
  show(remember("site") || "demo.example.org");
}

function show(text) {
  site = text.trim();
  if (site.includes("//") && URL.canParse(site)) site = new URL(site).hostname;
  remember("site", site);
  [pages, page, figures, series] = [[], "", null, []];
  panel.restart(`views:https://${site}/`, changed);
}

async function load() {
  const requested = site;
  const { items } = await panel.api.getViewsTop({ site, limit: PAGES });
  if (requested !== site) return;
  pages = items;
  if (!page && items.length) select(items[0].url);
  else if (page) await loadPage();
}

async function loadPage() {
  const requested = page;
  const counts = await panel.api.getViews({ url: requested });
  if (requested !== page) return;
  const isNew = figures?.views !== counts.views || figures.uniques !== counts.uniques;
  figures = counts;
  if (!isNew && Date.now() - seriesAt < MAX_AGE) return;
  seriesAt = Date.now();
  const query = { url: requested, interval: "hour", from: isoDate(Date.now() - 2 * DAY) };
  const { items } = await panel.api.getViewsSeries(query);
  if (requested === page) series = items;
}

/** Show one page of the site, and subscribe to its views. */
function select(url) {
  if (page === url) return;
  [page, figures, series] = [url, null, []];
  panel.restart(`views:${url}`, changed);
}

function changed(value) {
  if (value?.url !== page) return;
  const row = pages.find((one) => one.url === page);
  if (row) row.views = value.views;
  pages.sort((one, other) => other.views - one.views);
  const isNew = figures?.views !== value.views || figures.uniques !== value.uniques; // visitors may come a moment later
  figures = value;
  panel.draw();
  if (!isNew) return;
  seriesAt = 0;
  panel.refreshSoon(); // for the other pages of the site, and the series
}

// -- views to send -------------------------------------------------------------------------------------

/** Post views of a page, each from another client. Return a message with the time until they were counted. */
async function send(address, clients) {
  const { url, views: before } = await panel.api.getViews({ url: address });
  const time = new Date().toISOString();
  const events = Array.from({ length: clients }, () => ({ url, time, clientId: newClient() }));
  const began = performance.now();
  const body = clients === 1 ? events[0] : { events };
  let accepted, rejected;
  try {
    ({ accepted, rejected } = await panel.api.postViews(body));
  } catch (error) {
    if (error.status !== 422) throw error; // a single view that is not counted: the error code is the reason
    [accepted, rejected] = [0, [{ reason: error.code }]];
  }
  if (!accepted) return text.notCounted(text.rejections[rejected[0].reason] ?? rejected[0].reason);
  while (performance.now() - began < COUNT_TIMEOUT) {
    const { views } = await panel.api.getViews({ url });
    const took = Math.round(performance.now() - began);
    if (views >= before + accepted) {
      select(url);
      panel.refresh();
      return text.counted(accepted, took);
    }
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
  select(url); // and follow it: the count appears as soon as the view is counted
  return text.late;
}

async function submit(path, clients) {
  if (isSending) return;
  isSending = true;
  panel.draw();
  await panel.act(() => send(resolvePage(path.trim()), clients));
  isSending = false;
  panel.draw();
}

/** Return the page shown, unless the field names another page of its site. */
function resolvePage(given) {
  if (page && given === pathOf(page)) return page;
  return (page ? new URL(page).origin : `https://${site}`) + (given.startsWith("/") ? given : `/${given}`);
}

// crypto.randomUUID exists only on https and localhost.
function newClient() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function pathOf(url) {
  const { pathname, search } = new URL(url);
  return pathname + search;
}

// -- what is shown -------------------------------------------------------------------------------------

function template() {
  return html`
    ${pages.length || page ? html`<div class="two">${detail()}${list()}</div>` : empty()}
    <div class="row">
      <button type="button" class="primary" aria-disabled=${isSending}
        @click=${() => submit(page ? pathOf(page) : "/hello", 1)}>${text.send}</button>
      <a class="button" href="web/dashboard.html?site=${encodeURIComponent(site)}">${text.dashboard(site)}</a>
    </div>`;
}

function sender() {
  return html`<form class="row" @submit=${(event) => submit(fields(event).path, Number(event.submitter?.value ?? 1))}>
    <label class="grow">${text.path}
      <input name="path" .value=${page ? pathOf(page) : "/hello"} autocomplete="off" autocapitalize="none"
        spellcheck="false" required>
    </label>
    <button value="25" aria-disabled=${isSending}>${text.sendMany(25)}</button></form>`;
}

function empty() {
  const how = html`${text.howToFill}
    <code>python -m ops import-log --site https://${site} access.log</code>`;
  return emptyState(text.none(site), how);
}

function list() {
  if (!pages.length) return nothing;
  const most = Math.max(...pages.map(({ views }) => views));
  const oneOrigin = new Set(pages.map(({ url }) => new URL(url).origin)).size === 1;
  return html`
    <table class="ranked">
      <caption>${text.most}</caption>
      <tbody>${repeat(pages, ({ url }) => url, ({ url, views }) => html`
        <tr>
          <td><button type="button" class="choice" title=${url} aria-current=${url === page}
            @click=${() => select(url)}>${oneOrigin ? pathOf(url) : url}</button>
            <span class="bar" .style=${`--share: ${views / most}`}></span></td>
          <td class="number">${count.format(views)}</td>
        </tr>`)}
      </tbody>
    </table>`;
}

function detail() {
  if (!page) return nothing;
  queueMicrotask(plot);
  return html`
    <div class="detail">
      <p class="address"><a href=${page} rel="noreferrer">${page}</a></p>
      <dl class="figures">
        <div><dt>${text.views}</dt><dd id="count-views">${figures ? count.format(figures.views) : "–"}</dd></div>
        <div><dt title=${text.visitorsMeaning}>${text.visitors}</dt>
          <dd id="count-uniques">${figures ? count.format(figures.uniques) : "–"}</dd></div>
      </dl>
      <figure>
        <div class="plot" id="series"></div>
        <figcaption><span class="key">${text.views}</span><span class="key darker">${text.visitors}</span>
          <span class="readout"></span></figcaption>
      </figure>
    </div>`;
}

function plot() {
  const host = document.getElementById("series");
  if (!host || !series.length) return;
  const total = series.reduce((sum, { views }) => sum + views, 0);
  bars.show(host, {
    series: [
      { values: series.map(({ views }) => views), colour: "--views", width: 0.72 },
      { values: series.map(({ uniques }) => uniques), colour: "--uniques", width: 0.4 },
    ],
    ticks: timeTicks(series.map(({ time }) => Date.parse(time)), "hour"),
    xTitle: words.plot.hours,
    yTitle: words.plot.perHour,
    describe: (i) => `${dates.day(series[i].time)}, ${dates.hour(series[i].time)}: ${text.both(series[i].views, series[i].uniques)}`,
    summary: text.lastDays(total),
    hint: words.plot.hint,
  });
}
