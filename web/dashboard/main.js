// The dashboard of a site: its visitors, views, pages and referrers in one period, compared with the period before.

import { readable } from "../lib/labels.js";
import { createClient, explain, isTransient } from "../lib/client.js";
import { api as address, count, DAY, decimal, isLocal, isoDate, showHeader, stage, words } from "../lib/pages.js";
import * as live from "../lib/live.js";
import { change, direction, ratio, summary } from "./compare.js";
import { findViews, load, loadHosts, nameDays } from "./data.js";
import { campaignsCard, countriesCard, goalsCard, pagesCard, referrersCard, traitsCard } from "./lists.js";
import { drawChart, plot } from "./plot.js";
import { PERIODS } from "./periods.js";
import { hasPeriod, hasSite, host, knownSites, link, loadSites, read, rememberSite } from "./state.js";
import { html, live as current, nothing, render } from "../vendor/lit.js";

const REFRESH_DELAY = 1000; // ms after a push
const CACHED = 6_000; // ms: a stage may return a list that is 5 seconds old
const FOLLOWED = 8; // pages whose views are pushed
const LONGEST_PAUSE = 15_000; // ms
const CHECKED = 15_000; // ms between two checks of the network: a socket notices its loss only minutes later
const text = words.dashboard;
const client = createClient();
const main = document.querySelector("main");

if (hasSite()) loadSites().then(drawHeader);
else await loadSites();

let view = read(), data = null, problem = "", copied = false, isLoading = false, isRequested = false;
let isOnline = true, isPrivate = false;
let isLatestShown = hasPeriod(); // otherwise the page opens on the last days that have views
let turn = 0, failures = 0, soon = 0, settled = 0, retry = 0, first = "", found = null;
let stops = []; // of the topics that are followed

// -- loading -------------------------------------------------------------------------------------------

/** Show another view. */
function show(changes, isNew = true) {
  const isOther = changes.site !== undefined && changes.site !== view.site;
  view = { ...view, ...changes };
  if (isOther) data = null;
  if (isOther || changes.page !== undefined) [first, found] = ["", null];
  if (isNew) history.pushState(null, "", link(view));
  draw();
  refresh();
}

async function refresh() {
  const requested = (turn += 1);
  clearTimeout(retry);
  isRequested = false;
  isLoading = true;
  try {
    if (view.period === "all" && found === null) await search();
    const loaded = await load(client, view, first);
    if (requested !== turn) return;
    [problem, failures, isOnline, isPrivate] = ["", 0, true, false];
    if (!isLatestShown) {
      isLatestShown = true;
      if (!loaded.series.views && (await hasEarlier())) return show(latest(), false);
    }
    data = loaded;
    if (data.pages.items.length) rememberSite(view.site);
    follow();
  } catch (error) {
    if (requested !== turn) return;
    isPrivate = [401, 403].includes(error.status);
    problem = isPrivate ? "" : error.code === "Offline" ? words.offline : explain(error);
    if (isTransient(error)) {
      retry = setTimeout(refresh, Math.min(1000 * 2 ** failures, LONGEST_PAUSE));
      failures += 1;
    }
  }
  isLoading = false;
  draw();
}

function refreshSoon() {
  clearTimeout(soon);
  clearTimeout(settled);
  soon = setTimeout(() => document.hidden || refresh(), REFRESH_DELAY);
  settled = setTimeout(() => document.hidden || refresh(), CACHED);
}

/** Find the days on which the site has views, however long ago. */
async function search() {
  found = await findViews(client, view);
  first = found?.first ?? "";
  found ??= false;
}

/**
 * Follow the most viewed pages, or the home page of a site without any. Each push loads the view again, so that all its
 * parts are of the same time.
 */
function follow() {
  const pages = view.page ? [view.page] : data.pages.items.slice(0, FOLLOWED).map(({ url }) => url);
  const topics = (pages.length ? pages : [`https://${view.site}/`]).map((url) => `views:${url}`);
  if (topics.join() === stops.topics) return;
  stops.forEach((stop) => stop());
  stops = topics.map((topic) => live.follow(topic, refreshSoon));
  stops.topics = topics.join();
}

const showLatest = async () => {
  await search().catch((error) => { problem = explain(error); });
  if (found) show(latest());
  else draw();
};

/** Return whether the site has views at any time. */
async function hasEarlier() {
  await search();
  return Boolean(found);
}

/** Return the last days with views: up to a week. */
function latest() {
  const week = isoDate(Date.parse(found.last) - 6 * DAY);
  return { period: "range", from: week > found.first ? week : found.first, to: found.last };
}

/** Check whether the stage responds, and load again when it does so after a loss. */
async function checkNetwork() {
  if (document.hidden) return;
  const before = isOnline;
  isOnline = await client.getHealth().then(() => true, (error) => !isTransient(error));
  drawHeader();
  if (isOnline && !before) refresh();
}

// -- what is shown -------------------------------------------------------------------------------------

function drawHeader() {
  render(html`<form id="choose-site" @submit=${(event) => {
    event.preventDefault();
    show({ site: host(new FormData(event.target).get("site")), page: "" });
  }}>
    <label><span class="hidden">${text.site}</span>
      <input name="site" list="sites" .value=${current(view.site)} autocomplete="off" autocapitalize="none"
        spellcheck="false" required></label>
    <datalist id="sites">${knownSites().map((site) => html`<option value=${site}></option>`)}</datalist>
    <button>${words.show}</button></form>`, document.getElementById("site-choice"));
  const state = document.getElementById("state");
  const [name, said] = !isOnline ? ["offline", words.state.offline] : problem ? ["error", words.state.error] : isPrivate ? ["private", words.state.private] : !data ? ["loading", words.state.loading]
    : ["live", live.isPushed() ? words.state.live : words.state.polling];
  state.dataset.state = name;
  if (state.textContent !== said) state.textContent = said;
}

function draw() {
  document.title = `${view.site}: Hubbub`;
  drawHeader();
  render(html`
    <div class="bar-top">
      <h1>${view.site}</h1>
      ${data?.now ? html`<p class="now" title=${text.nowMeaning} ?data-stale=${problem !== ""}>${text.now(data.now.visitors, data.now.views)}</p>` : nothing}
    </div>
    ${choices()}
    ${problem ? html`<p class="notice" role="alert">${problem}</p>` : nothing}
    ${view.page ? html`<p class="filter"><span>${text.onlyPage} <a href=${view.page} rel="noreferrer">${readable(view.page)}</a></span>
      <button type="button" @click=${() => show({ page: "" })}>${text.allPages}</button></p>` : nothing}
    <div class="view" ?data-stale=${problem !== ""} aria-busy=${isLoading}>${isPrivate ? locked() : data ? content() : problem ? nothing : skeleton()}</div>`, main);
  if (document.getElementById("views-plot")) drawChart(data, show);
}

function choices() {
  const { period } = view;
  const change = (event) => {
    const { from, to } = event.currentTarget.elements;
    if (from.value && to.value) show({ from: from.value, to: to.value });
  };
  return html`<div class="choices">
    <fieldset class="switch"><legend class="hidden">${text.period}</legend>
      ${PERIODS.map((choice) => html`<label><input type="radio" name="period" value=${choice} .checked=${current(choice === period)}
        @change=${() => show({ period: choice, ...(choice === "range" && data ? { from: data.period.from, to: data.period.to } : {}) })}><span>${
        text.periods[choice]}</span></label>`)}
    </fieldset>
    ${period === "range" ? html`<form class="row range" @change=${change} @submit=${(event) => event.preventDefault()}>
      <label>${text.from} <input type="date" name="from" .value=${current(view.from)} required></label>
      <label>${text.to} <input type="date" name="to" .value=${current(view.to)} required></label></form>` : nothing}
    <label class="check"><input type="checkbox" .checked=${current(view.compare)} ?disabled=${period === "all"}
      @change=${(event) => show({ compare: event.target.checked })}> ${text.compare}</label>
    <button type="button" class="quiet-button" @click=${copy}>${copied ? words.copied : text.copyLink}</button>
  </div>`;
}

async function copy() {
  await navigator.clipboard.writeText(new URL(link(view), location.href).href).then(() => { copied = true; }, () => {});
  draw();
  setTimeout(() => { copied = false; draw(); }, 2000);
}

function content() {
  const { series, before, period } = data;
  if (!series.views && !before?.series?.views) return empty();
  return html`
    ${summary(data, view)}
    <dl class="figures">
      ${figure("views", text.views, series.views, before?.series?.views)}
      ${series.visitors === null ? nothing : html`
        ${figure("visitors", text.visitors, series.visitors, before?.series?.visitors ?? undefined, text.visitorsMeaning)}
        ${figure("each", text.perVisitor, ratio(series), before?.series?.visitors ? ratio(before.series) : undefined)}`}
    </dl>
    ${plot(data, view)}
    <p class="quiet days">${nameDays(period)}${before?.series
      ? `, ${text.comparedWith} ${nameDays(period.before)}` : ""}. ${text.zone(data.timezone)}</p>
    <div class="lists">
      ${pagesCard(data, view, show, draw)}
      <div class="sources">
        ${referrersCard(data, view, (source) => loadHosts(client, view, data, source), draw)}
        ${campaignsCard(data, view)}
        ${goalsCard(data, view)}
        ${countriesCard(data, view)}
        ${traitsCard(data, view, show)}
      </div>
    </div>`;
}

function figure(id, label, value, earlier, title) {
  const shown = (number) => (Number.isInteger(number) && id !== "each" ? count(number) : decimal(number, 1));
  return html`<div id="total-${id}"><dt title=${title ?? nothing}>${label}</dt><dd>${shown(value)}
    ${earlier === undefined ? nothing : html`<span class="change ${direction(value, earlier)}">${change(value, earlier)}
      <span class="quiet">${text.before(shown(earlier))}</span></span>`}</dd></div>`;
}

function empty() {
  return html`<div class="empty"><p><strong>${text.noViews(nameDays(data.period))}</strong>
    ${found === false ? text.never : text.howToFill}
    <code>.venv/bin/hubbub import-log --stage ${stage} --site https://${view.site} access.log</code></p>
    ${found === false ? nothing : html`<button type="button" @click=${showLatest}>${text.latest}</button>`}
    ${isLocal ? html`<a class="button" href=${address}>${text.demo}</a>` : nothing}</div>`;
}

/** Render a site whose statistics are not public. */
const locked = () => html`<div class="empty locked">
  <svg viewBox="0 0 24 24" width="28" height="28" aria-hidden="true"><path d="M5 11h14v9H5zM8 11V8a4 4 0 0 1 8 0v3" fill="none" stroke="currentColor" stroke-width="2"/></svg>
  <p><strong>${text.private(view.site)}</strong> ${text.howToOpen}</p></div>`;

function skeleton() {
  return html`<div class="skeleton"><span class="hidden">${words.state.loading}</span><i></i><i></i><i></i><i></i></div>`;
}

// -- beginning -----------------------------------------------------------------------------------------

showHeader();
live.changes.addEventListener("change", drawHeader);
["online", "offline"].forEach((type) => addEventListener(type, checkNetwork));
setInterval(checkNetwork, CHECKED);
addEventListener("popstate", () => show(read(), false));
draw();
refresh();
