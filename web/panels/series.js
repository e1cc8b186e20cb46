// The views of one page over time: the form for the period, the plot, and the same counts as a table.

import { ApiError } from "../lib/api.js";
import { Bars } from "../lib/plots.js";
import { html, live, nothing } from "../vendor/lit.js";
import { count, plural } from "../lib/words.js";

const DAY = 86_400_000; // ms
const MAX_AGE = 30_000; // ms until a series is loaded again although no count has changed
const MOST_HOURS = 30 * DAY; // the longest period that the API returns by the hour
const MOST_YEARS = 25; // searched for views outside the period
const MOST_ROWS = 240; // of the table
const date = (time) => new Date(time).toISOString().slice(0, 10);
const today = () => date(Date.now());
const [DATE, HOUR] = [{ day: "numeric", month: "short" }, { hour: "2-digit", minute: "2-digit" }].map(
  (parts) => new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", ...parts }),
);

const figures = ({ views, uniques }) => `${plural(views, "view")}, ${plural(uniques, "unique")}`;

export class Series {
  #api; #draw; #url = ""; #total = 0; #items = []; #problem = ""; #searchResult = ""; #loadedAt = 0; #isOpen = false;
  #interval = "hour"; #from = ""; #to = ""; #bars = new Bars(210);

  constructor(api, draw) {
    this.#api = api;
    this.#draw = draw;
  }

  clear() {
    [this.#items, this.#problem, this.#searchResult, this.#loadedAt] = [[], "", "", 0];
  }

  /** Load the series again the next time. */
  expire() {
    this.#loadedAt = 0;
  }

  /** Load the series of a page with `total` views when its counts have changed or the series is old. */
  async load(url, total, isNew) {
    [this.#url, this.#total] = [url, total];
    if (isNew || Date.now() - this.#loadedAt > MAX_AGE) await this.#request();
  }

  async #request() {
    if (!this.#from) this.#setPeriod(Date.now() - (this.#interval === "hour" ? 2 : 29) * DAY, Date.now());
    const [url, to] = [this.#url, this.#to];
    // Without `to` the series ends now, so it has no hours in the future.
    const query = { url, interval: this.#interval, from: this.#from, to: to < today() ? to : "" };
    this.#loadedAt = Date.now();
    try {
      const { items } = await this.#api.get("/views/series", query);
      if (url === this.#url) [this.#items, this.#problem] = [items, ""];
    } catch (error) {
      if (!(error instanceof ApiError) || error.isTransient) throw error;
      [this.#items, this.#problem] = [[], error.message];
    }
    this.#draw();
  }

  #setPeriod(from, to) {
    [this.#from, this.#to] = [date(from), date(to)];
  }

  #change(event) {
    const { interval, from, to } = event.currentTarget.elements;
    const isOther = interval.value !== this.#interval;
    [this.#interval, this.#from, this.#to] = [interval.value, from.value, to.value];
    if (isOther && event.target.name === "interval" && this.#to >= today()) this.#from = "";
    if (!from.value || !to.value) return;
    if (Date.parse(to.value) - Date.parse(from.value) > MOST_HOURS) this.#interval = "day";
    this.#searchResult = "";
    this.#request().catch((error) => this.#fail(error));
  }

  #fail(error) {
    this.#searchResult = error.message;
    this.#draw();
  }

  /** Search a year at a time, backwards or forwards, until there are views. Then show their period. */
  async #search(years) {
    const url = this.#url;
    let from = Date.parse(this.#from), to = Date.parse(this.#to), found = [];
    for (let looks = 0; looks < MOST_YEARS && !found.length; looks += 1) {
      if (years > 0 && date(to) >= today()) break;
      [from, to] = years < 0 ? [from - 365 * DAY, from - DAY] : [to + DAY, to + 365 * DAY];
      const query = { url, interval: "day", from: date(from), to: date(to) };
      found = (await this.#api.get("/views/series", query)).items.filter((item) => item.views);
    }
    if (url !== this.#url) return;
    this.#searchResult = `No ${years < 0 ? "earlier" : "later"} views.`;
    if (found.length) {
      const [first, last] = [found[0], found.at(-1)].map((item) => Date.parse(item.time));
      this.#interval = last - first < 3 * DAY ? "hour" : "day";
      this.#setPeriod(first, last);
      this.#searchResult = "";
      await this.#request();
    }
    this.#draw();
  }

  // -- what is shown -----------------------------------------------------------------------------------

  template() {
    const inside = this.#items.reduce((sum, item) => sum + item.views, 0);
    queueMicrotask(() => this.#plot(inside));
    return html`
      <form class="row range" aria-label="Period of the series, in UTC"
        @submit=${(event) => event.preventDefault()} @change=${(event) => this.#change(event)}>
        <fieldset class="switch">
          <legend class="hidden">Interval</legend>
          ${["hour", "day"].map((one) => html`<label><input type="radio" name="interval" value=${one}
            .checked=${live(this.#interval === one)}><span>${one === "hour" ? "Hours" : "Days"}</span></label>`)}
        </fieldset>
        <label>From <input type="date" name="from" .value=${live(this.#from)} required></label>
        <label>To <input type="date" name="to" .value=${live(this.#to)} required></label>
      </form>
      ${this.#problem ? html`<p class="notice" role="alert">${this.#problem}</p>` : nothing}
      <figure ?hidden=${this.#problem !== ""}>
        <div class="plot" id="series"></div>
        <figcaption><span class="key">views</span><span class="key darker">uniques</span>
          <span class="readout"></span></figcaption>
      </figure>
      ${this.#items.length && this.#total > inside ? this.#outside(this.#total - inside) : nothing}
      <details @toggle=${(event) => this.#toggle(event)}>
        <summary>Show as a table</summary>${this.#isOpen ? this.#table() : nothing}
      </details>`;
  }

  #toggle(event) {
    this.#isOpen = event.target.open;
    this.#draw();
  }

  #outside(number) {
    const search = (years) => this.#search(years).catch((error) => this.#fail(error));
    return html`<div class="row outside"><p>${this.#searchResult || `${plural(number, "view")} outside this period:`}</p>
      <button type="button" @click=${() => search(-1)}>Earlier</button>
      <button type="button" ?disabled=${this.#to >= today()} @click=${() => search(1)}>Later</button></div>`;
  }

  #table() {
    const rows = this.#items.filter((item) => item.views).reverse().slice(0, MOST_ROWS);
    return html`<div class="scroll" tabindex="0" role="region" aria-label="Views over time">
      <table><thead><tr><th scope="col">Time (UTC)</th><th scope="col" class="number">Views</th>
        <th scope="col" class="number">Uniques</th></tr></thead>
      <tbody>${rows.map((item) => html`<tr><td>${this.#label(item)}</td>
        <td class="number">${count.format(item.views)}</td>
        <td class="number">${count.format(item.uniques)}</td></tr>`)}</tbody></table></div>`;
  }

  #plot(inside) {
    const host = document.getElementById("series");
    if (!host || !this.#items.length) return;
    const items = this.#items;
    this.#bars.show(host, {
      series: [
        { values: items.map((item) => item.views), colour: "--views", width: 0.72 },
        { values: items.map((item) => item.uniques), colour: "--uniques", width: 0.4 },
      ],
      marked: -1,
      tick: (i) => this.#tick(items[i]),
      describe: (i) => `${this.#label(items[i])}: ${figures(items[i])}`,
      summary: inside ? `${plural(inside, "view")} in this period.` : "No views in this period.",
    });
  }

  #tick(item) {
    if (!item) return "";
    const time = new Date(item.time);
    return (this.#interval === "day" || time.getUTCHours() === 0 ? DATE : HOUR).format(time);
  }

  #label(item) {
    const time = new Date(item.time);
    return DATE.format(time) + (this.#interval === "hour" ? `, ${HOUR.format(time)}` : "");
  }
}
