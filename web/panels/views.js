// The views panel: a site's most viewed pages, the views of one page over time, and a form that sends views.

import { chooser, fields, emptyState, Panel, remember } from "./panel.js";
import { Series } from "./series.js";
import { html, nothing, repeat } from "../vendor/lit.js";
import { count, plural, REJECTIONS } from "../lib/words.js";

const PAGES = 8;
const COUNT_TIMEOUT = 10_000; // ms within which an accepted view should be counted

let site = "", pages = [], page = "", figures = null, isSending = false;

const panel = new Panel("views", {
  load,
  template,
  about: { script: "panels/views.js", module: "chalicelib/views", documented: "views" },
});
const series = new Series(panel.api, () => panel.draw());

export function start() {
  show(remember("site") || "demo.example.org");
}

function show(text) {
  site = text.trim();
  if (site.includes("//") && URL.canParse(site)) site = new URL(site).hostname;
  remember("site", site);
  [pages, page, figures] = [[], "", null];
  panel.restart(`views:https://${site}/`, changed);
}

async function load() {
  const requested = site;
  const { items } = await panel.api.get("/views/top", { site, limit: PAGES });
  if (requested !== site) return;
  pages = items;
  if (!page && items.length) select(items[0].url);
  else if (page) await loadPage();
}

async function loadPage() {
  const requested = page;
  const counts = await panel.api.get("/views", { url: requested });
  if (requested !== page) return;
  const isNew = figures?.views !== counts.views || figures.uniques !== counts.uniques;
  figures = counts;
  await series.load(requested, counts.views, isNew);
}

/** Show one page of the site, and subscribe to its views. */
function select(url) {
  if (page === url) return;
  [page, figures] = [url, null];
  series.clear();
  panel.restart(`views:${url}`, changed);
}

function changed(value) {
  if (value.url !== page) return;
  const row = pages.find((one) => one.url === page);
  if (row) row.views = value.views;
  const isNew = figures?.views !== value.views;
  figures = value;
  panel.draw();
  if (!isNew) return;
  series.expire();
  panel.refreshSoon(); // for the other pages of the site, and the series
}

// -- views to send -------------------------------------------------------------------------------------

/** Post views of a page, each from another client. Return a message with the time until they were counted. */
async function send(address, clients) {
  const { url, views: before } = await panel.api.get("/views", { url: address });
  const time = new Date().toISOString();
  const events = Array.from({ length: clients }, () => ({ url, time, clientId: newClient() }));
  const began = performance.now();
  const body = clients === 1 ? events[0] : { events };
  let accepted, rejected;
  try {
    ({ accepted, rejected } = (await panel.api.request("POST", "/views", { body, mine: false })).body);
  } catch (error) {
    if (error.status !== 422) throw error; // a single view that is not counted: the error code is the reason
    [accepted, rejected] = [0, [{ reason: error.code }]];
  }
  if (!accepted) return `Not counted: ${REJECTIONS[rejected[0].reason] ?? rejected[0].reason}.`;
  while (performance.now() - began < COUNT_TIMEOUT) {
    const { views } = await panel.api.get("/views", { url });
    const took = Math.round(performance.now() - began);
    if (views >= before + accepted) {
      select(url);
      panel.refresh();
      return `${plural(accepted, "view")} counted, visible ${count.format(took)} ms after the request.`;
    }
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
  return "Accepted, but not counted after 10 s. Check that the table’s stream is being processed.";
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
function resolvePage(text) {
  if (page && text === pathOf(page)) return page;
  return (page ? new URL(page).origin : `https://${site}`) + (text.startsWith("/") ? text : `/${text}`);
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
    ${chooser("Site", site, show)}
    ${pages.length || page ? html`<div class="two">${list()}${page ? detail() : nothing}</div>` : empty()}
    <form class="row" @submit=${(event) => submit(fields(event).path, Number(event.submitter?.value ?? 1))}>
      <label class="grow">Path of the page
        <input name="path" .value=${page ? pathOf(page) : "/hello"} autocomplete="off" autocapitalize="none"
          spellcheck="false" required>
      </label>
      <button class="primary" value="1" aria-disabled=${isSending}>Send a view</button>
      <button value="25" aria-disabled=${isSending}>Send 25 from 25 visitors</button>
    </form>`;
}

function empty() {
  const how = html`Send one below, or import the site’s access log:
    <code>python -m ops import-log --site https://${site} access.log</code>`;
  return emptyState(`No views of ${site} yet.`, how);
}

function list() {
  const most = pages[0]?.views ?? 1;
  const oneOrigin = new Set(pages.map(({ url }) => new URL(url).origin)).size === 1;
  return html`
    <table class="ranked">
      <caption>Most viewed</caption>
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
  return html`
    <div class="detail">
      <p class="address"><a href=${page} rel="noreferrer">${page}</a></p>
      <dl class="figures">
        <div><dt>views</dt><dd id="count-views">${figures ? count.format(figures.views) : "–"}</dd></div>
        <div><dt title="Unique visitors of each day, summed over all days">uniques</dt>
          <dd id="count-uniques">${figures ? count.format(figures.uniques) : "–"}</dd></div>
      </dl>
      ${series.template()}
    </div>`;
}
