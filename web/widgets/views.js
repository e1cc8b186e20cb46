// <hubbub-views>: how often this page was viewed. <hubbub-views site="example.org">: the most viewed pages of a site.

import { Bars, SHEET } from "../lib/chart.js";
import { callDocument, make, write } from "../lib/dom.js";
import { datesFor, readable, timeTicks } from "../lib/labels.js";
import { Widget } from "./element.js";

const DAY = 86_400_000; // ms

class Views extends Widget {
  static observedAttributes = ["api", "socket", "url", "site", "limit", "chart", "lang"];
  static words = { en: () => import("../words-en/views.js"), de: () => import("../words-de/views.js") };
  static every = 15_000;
  static topic = (widget) => `views:${widget.#isList ? `https://${widget.#site}/` : widget.#url}`;
  #bars = new Bars();
  #title = make("h3", { part: "title" });
  #views = make("dd", {}, "–");
  #visitors = make("dd", {}, "–");
  #terms = [make("dt"), make("dt")];
  #figures = make("dl", { part: "figures", ariaLive: "polite" },
    make("div", {}, this.#views, this.#terms[0]), make("div", {}, this.#visitors, this.#terms[1]));
  #plot = make("div", { className: "plot low" });
  #keys = [make("span", { className: "key" }), make("span", { className: "key darker" })];
  #figure = make("figure", { part: "chart" }, this.#plot, make("figcaption", {}, ...this.#keys, make("span", { className: "readout" })));
  #list = make("ol", { part: "list" });

  constructor() {
    super(STYLE, SHEET);
    this.root.append(this.#title, this.#figures, this.#figure, this.#list, this.stateLine);
  }

  get #isList() { return this.hasAttribute("site"); }
  get #site() { return this.getAttribute("site") || location.hostname; }
  get #url() {
    const own = new URL(callDocument("querySelector", "head > link[rel=canonical]")?.href || location.href);
    return this.getAttribute("url") || own.origin + own.pathname;
  }
  get #limit() { return Math.min(100, Math.max(1, Number(this.getAttribute("limit")) || 10)); }
  get rows() { return this.#isList ? this.#limit : this.hasAttribute("chart") ? 10 : 1; }

  begin() {
    const { text } = this;
    this.#title.textContent = this.#isList ? text.mostViewed : text.title;
    this.#figures.hidden = this.#isList;
    this.#figure.hidden = this.#isList || !this.hasAttribute("chart");
    this.#terms[1].title = text.visitorsMeaning;
    [this.#keys[0].textContent, this.#keys[1].textContent] = [text.views(2), text.visitors(2)];
    [this.#views.textContent, this.#visitors.textContent] = ["–", "–"];
    this.#list.replaceChildren();
  }

  async read() {
    if (this.#isList) {
      const { items } = await this.call("GET views/top", { site: this.#site, limit: this.#limit });
      return () => this.#showList(items);
    }
    const from = new Date(Date.now() - 2 * DAY).toISOString().slice(0, 10), url = this.#url;
    const [counts, series] = await Promise.all([
      this.call("GET views", { url }),
      this.hasAttribute("chart") ? this.call("GET views/series", { url, interval: "hour", from }) : null,
    ]);
    return () => {
      this.#showCounts(counts);
      if (series) this.#showSeries(series.items);
      this.setState("ready");
    };
  }

  changed(value, isFirst) {
    const before = this.#figures.textContent;
    if (!this.#isList) this.#showCounts(value);
    if (this.#isList ? !isFirst : !this.#figure.hidden && this.#figures.textContent !== before) this.loadSoon();
  }

  #showCounts({ views, visitors }) {
    const { text, formats } = this;
    [this.#terms[0].textContent, this.#terms[1].textContent] = [text.views(views), text.visitors(visitors)];
    write(this.#views, formats.count(views));
    write(this.#visitors, formats.count(visitors));
    this.emit("update", { views, visitors });
  }

  #showSeries(items) {
    const { text, words, formats } = this, dates = datesFor(this.locale);
    const values = items.map(({ views }) => views), visitors = items.map((item) => item.visitors);
    this.#bars.show(this.#plot, {
      series: [{ values, className: "views", width: 0.72 }, { values: visitors, className: "visitors", width: 0.4 }],
      ticks: timeTicks(items.map(({ time }) => Date.parse(time)), "hour", dates),
      short: formats.short,
      xTitle: text.hours,
      yTitle: text.perHour,
      describe: (i) => `${dates.day(items[i].time)}, ${dates.hour(items[i].time)}: ${text.both(values[i], visitors[i])}`,
      summary: text.lastDays(values.reduce((sum, value) => sum + value, 0)),
      hint: words.chartHint,
    });
  }

  #showList(items) {
    const most = Math.max(1, ...items.map(({ views }) => views));
    const hasOneOrigin = new Set(items.map(({ url }) => new URL(url).origin)).size === 1;
    this.#list.replaceChildren(...items.map(({ url, views }) => {
      const link = make("a", { href: url, title: url }, make("bdi", { dir: "ltr" }, readable(hasOneOrigin ? url.slice(new URL(url).origin.length) : url)));
      const made = make("li", { part: "page" }, link, make("span", { className: "number" }, this.formats.count(views)));
      made.style.setProperty("--share", views / most);
      return made;
    }));
    this.setState(items.length ? "ready" : "empty", items.length ? "" : this.text.none);
  }
}

const STYLE = `
.root { min-height: calc(var(--rows) * 34px + 30px); }
.root { container-type: inline-size; }
[part=figures] { display: grid; grid-template-columns: repeat(2, minmax(0, 16rem)); gap: 4px 20px; }
@container (max-width: 500px) { [part=figures] { grid-template-columns: minmax(0, 1fr); } }
[part=figures] div { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 7px; }
dd { font-size: 32px; line-height: 1.15; font-weight: 650; font-variant-numeric: tabular-nums; }
dt { color: var(--h-quiet); }
[part=list] { display: grid; }
[part=page] { display: flex; align-items: baseline; gap: 12px; position: relative; min-height: 34px; padding: 6px 10px; }
[part=page]::before { content: ""; position: absolute; inset: 2px 0; width: calc(100% * var(--share)); border-radius: 5px; background: var(--h-tint); }
[part=page] > * { position: relative; }
[part=page] a { flex: 1; display: -webkit-box; min-width: 0; overflow: hidden; -webkit-box-orient: vertical; -webkit-line-clamp: 2; color: inherit; text-decoration: none; }
[part=page] a:hover { text-decoration: underline; }
.number { font-variant-numeric: tabular-nums; }
`;

customElements.define("hubbub-views", Views);
