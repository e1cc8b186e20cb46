// The calls of the dashboard. All parts of a view are loaded for the same days.

import { dates, DAY, isoDate } from "../lib/language.js";
import { byMonth, LONGEST, resolve, split } from "./periods.js";

const SUMMED = 40; // pages whose views are added up: the API has no totals of a site
const MOST_YEARS = 15; // that are searched for the first views of a site

/**
 * Load a view. Returns its `period`, `now` (the current hour, where it is known), `series`, `pages`, `summed` (the
 * number of pages whose views are added up), and `before`: the series and the pages of the period before.
 */
export async function load(api, view, first) {
  const now = Date.now(), period = resolve(view, now, first), today = isoDate(now);
  const earlier = view.compare && period.before;
  // A part of today is compared with the same part of yesterday.
  const until = period.from === today ? now - DAY : Infinity;
  const [of, hours] = await Promise.all([
    loadSums(api, view, period, earlier, until),
    view.page ? read(api, view.page, { from: today, to: today }, "hour") : [],
  ]);
  const { series, pages, beforeSeries, beforePages, summed = 0 } = of;
  // Without views there is nothing to compare with. A list of pages is of whole days.
  const isComparable = beforeSeries?.views || beforePages?.items.length;
  const before = isComparable ? { series: beforeSeries, pages: until === Infinity ? beforePages : null } : null;
  const current = period.interval === "hour" && period.to === today ? series?.items.at(-1) : null;
  return { period, series, pages, before, summed, now: hours.at(-1) ?? current ?? null };
}

/** Add up the series of the site's most viewed pages. Its visitors cannot be added up, because many see several pages. */
async function loadSums(api, view, period, earlier, until) {
  const { items } = await api.getViewsTop({ site: view.site, limit: SUMMED });
  if (view.period === "all") return { series: view.page ? await loadSeries(api, view, period) : null, pages: { items } };
  const step = stepOf(period), all = { from: (earlier || period).from, to: period.to };
  const each = await Promise.all(items.map(async ({ url }) => ({ url, items: await read(api, url, all, step) })));
  const within = (range, end = Infinity) => {
    const isIn = ({ time }) => time >= range.from && time.slice(0, 10) <= range.to && Date.parse(time) <= end;
    const pages = each.map(({ url, items: one }) => ({ url, items: one.filter(isIn) }))
      .map((page) => ({ ...page, views: sum(page.items, "views") })).filter(({ views }) => views);
    const times = each[0]?.items.filter(isIn).map(({ time }) => time) ?? [];
    const sums = new Map(times.map((time) => [time, 0]));
    for (const page of pages) for (const { time, views } of page.items) sums.set(time, sums.get(time) + views);
    const series = [...sums].map(([time, views]) => ({ time, views, visitors: null }));
    return { pages, series };
  };
  const now = within(period), before = earlier && within(earlier, until);
  const total = ({ series }) => ({ views: sum(series, "views"), visitors: null, items: period.interval === "month" ? byMonth(series) : series });
  return {
    summed: items.length,
    series: view.page ? await loadSeries(api, view, period) : total(now),
    pages: { items: now.pages.sort((one, other) => other.views - one.views) },
    beforeSeries: !earlier ? null : view.page ? await loadSeries(api, view, { ...earlier, interval: period.interval }, until) : total(before),
    beforePages: earlier ? { items: before.pages } : null,
  };
}

const sum = (items, name) => items.reduce((total, item) => total + item[name], 0);
const stepOf = ({ interval }) => (interval === "hour" ? "hour" : "day");

/**
 * Load the hours, days or months of the page of a view, and their totals. `until` cuts the series. The visitors of
 * a part of a day are not known (null).
 */
async function loadSeries(api, view, period, until = Infinity) {
  const isHourly = period.interval === "hour", isCut = until !== Infinity;
  // A visitor counts once on each day, so the visitors of hours do not add up to those of the day.
  const [all, days] = await Promise.all([
    read(api, view.page, period, stepOf(period)), isHourly && !isCut ? read(api, view.page, period, "day") : null,
  ]);
  const items = all.filter(({ time }) => Date.parse(time) <= until);
  return {
    views: sum(items, "views"),
    visitors: isCut ? null : sum(days ?? items, "visitors"),
    items: period.interval === "month" ? byMonth(items) : items,
  };
}

/** Read every hour or day of a page. */
async function read(api, url, { from, to }, step) {
  const today = isoDate(Date.now());
  const parts = await Promise.all(split({ from, to }).map((part) => (
    // Without `to` the series ends now, so it has no hours in the future.
    api.getViewsSeries({ url, interval: step, from: part.from, to: part.to < today ? part.to : undefined })
  )));
  return parts.flatMap(({ items }) => items).map(({ time, views, uniques }) => ({ time, views, visitors: uniques }));
}

/**
 * Return the first and last dates on which a page has views, or null. The most viewed page stands for a site. Searches
 * a year at a time, from now on backwards, until a year after the first found one has none.
 */
export async function findViews(api, { site, page }) {
  const url = page || (await api.getViewsTop({ site, limit: 1 })).items[0]?.url;
  if (!url) return null;
  let first = "", last = "", to = Date.now();
  for (let looks = 0; looks < MOST_YEARS; looks += 1) {
    const from = to - (LONGEST - 1) * DAY;
    const seen = (await read(api, url, { from: isoDate(from), to: isoDate(to) }, "day")).filter(({ views }) => views);
    if (seen.length) [first, last] = [seen[0].time.slice(0, 10), last || seen.at(-1).time.slice(0, 10)];
    else if (first) break;
    to = from - DAY;
  }
  return first ? { first, last } : null;
}

/** Name the days of a period: "17 May 2015" or "17 May 2015 – 20 May 2015". */
export function nameDays({ from, to }) {
  return from === to ? dates.fullDay(from) : `${dates.fullDay(from)} – ${dates.fullDay(to)}`;
}
