// The plot of a period: views and visitors of each hour, day or month, and the views of the period before as a line.

import { download } from "../lib/csv.js";
import { dates, formats, words } from "../lib/pages.js";
import { Bars } from "../lib/chart.js";
import { timeTicks } from "../lib/labels.js";
import { html, nothing } from "../vendor/lit.js";

const text = words.dashboard;
const bars = new Bars();
const LABELS = {
  hour: (time) => `${dates.weekday(time)}, ${dates.hour(time)}`,
  day: dates.weekday,
  month: dates.fullMonth,
};

/** Render the frame of the plot. */
export function plot({ series, before }, { site, page }) {
  const save = () => download(`${site}-views.csv`, ["time", ...(page ? ["url"] : []), "views", "visitors"],
    series.items.map(({ start, views, visitors }) => [start, ...(page ? [page] : []), views, visitors]));
  return html`<figure class="card">
    <div class="plot tall" id="views-plot"></div>
    <figcaption><span class="key">${words.views.views(2)}</span>${series.visitors === null ? nothing
      : html`<span class="key darker">${words.views.visitors(2)}</span>`}
      ${before?.series ? html`<span class="key line">${text.viewsBefore}</span>` : nothing}
      <span class="readout"></span>
      <button type="button" class="csv" @click=${save} aria-label=${text.csvOf(text.views)}>CSV</button></figcaption>
  </figure>`;
}

/** Draw the plot. A click on a day or a month shows it. */
export function drawChart({ series, before, period, timezone }, show) {
  const { items } = series, { interval } = period;
  const hasVisitors = series.visitors !== null;
  const times = items.map(({ time }) => Date.parse(time));
  const earlier = before?.series ? items.map((_, i) => before.series.items[i]?.views ?? null) : null;
  const describe = (i) => {
    const { time, views, visitors } = items[i];
    const line = `${LABELS[interval](time)}: ${hasVisitors ? words.views.both(views, visitors) : words.viewsOf(views)}`;
    return earlier?.[i] === null || earlier === null ? line : `${line} (${text.before(words.viewsOf(earlier[i]))})`;
  };
  bars.show(document.getElementById("views-plot"), {
    series: [
      { values: items.map(({ views }) => views), className: "views", width: 0.72 },
      ...(hasVisitors ? [{ values: items.map(({ visitors }) => visitors), className: "visitors", width: 0.4 }] : []),
    ],
    earlier,
    ticks: timeTicks(times, interval, dates),
    short: formats.short,
    xTitle: { hour: words.chart.hours, day: words.chart.days, month: words.chart.months }[interval](timezone),
    yTitle: { hour: words.chart.perHour, day: words.chart.perDay, month: words.chart.perMonth }[interval],
    describe,
    summary: text.plotSummary(series.views, series.visitors),
    hint: words.chart.hint,
    choose: interval === "hour" ? null : (i) => show({ period: "range", ...days(items[i].time, interval) }),
  });
}

function days(time, interval) {
  const from = time.slice(0, 10);
  if (interval === "day") return { from, to: from };
  const date = new Date(time);
  return { from, to: new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).toISOString().slice(0, 10) };
}
