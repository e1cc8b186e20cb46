// The calls of the dashboard. All parts of a view are loaded for the same days.

import { dates, DAY, isoDate } from "../lib/language.js";
import { byMonth, listed, LONGEST, resolve, split } from "./periods.js";

const PAGES = 100; // in one call
const SUMMED = 40; // pages that are added up where the stage does not offer totals of sites
const SOURCES = 50; // referrers, and campaigns
const MOST_YEARS = 15; // that are searched for the first views of a site

let offersTotals = true; // whether the stage offers totals of sites, as far as is known

/**
 * Load a view. Returns its `period`, `now` (the current hour), `series`, `pages`, `referrers`, `campaigns`, and `before`:
 * the series and the pages of the period before. A part that the stage does not offer is null. Where it offers no totals of
 * sites, `summed` is the number of pages whose views are added up instead.
 */
export async function load(api, view, first) {
  const now = Date.now(), period = resolve(view, now, first);
  const earlier = view.compare && period.before;
  // A part of today is compared with the same part of yesterday.
  const until = period.from === isoDate(now) ? now - DAY : Infinity;
  const days = listed(period), sources = { site: view.site, from: days.from, to: days.to, limit: SOURCES };
  const [hour, totals, referrers, campaigns] = await Promise.all([
    offered(api.getViewsSite({ site: view.site, interval: "hour", from: isoDate(now) })),
    offersTotals ? offered(loadTotals(api, view, period, earlier, until)) : null,
    offered(api.getViewsReferrers(sources)),
    offered(api.getViewsCampaigns(sources)),
  ]);
  offersTotals = hour !== null;
  const of = hour && totals ? totals : await loadSums(api, view, period, earlier, until);
  const { series, pages, beforeSeries, beforePages, summed = 0 } = of;
  // Without views there is nothing to compare with. A list of pages is of whole days.
  const isComparable = beforeSeries?.views || beforePages?.items.length;
  const before = isComparable ? { series: beforeSeries, pages: until === Infinity ? beforePages : null } : null;
  const today = { from: isoDate(now), to: isoDate(now) };
  const hours = hour?.items ?? (view.page ? await read(api, view, today, "hour") : []);
  return {
    period, series, pages, before, summed, referrers: referrers?.items ?? null, campaigns: campaigns?.items ?? null,
    now: hours.at(-1) ?? null,
  };
}

/** Load the series and the pages of both periods from the stage's totals of the site. */
async function loadTotals(api, view, period, earlier, until) {
  const { site } = view;
  const top = async (range) => {
    const { from, to, isCut } = view.period === "all" ? {} : listed(range);
    // A stage without days of pages does not offer the pages of a period.
    const pages = await offered(api.getViewsTop({ site, limit: PAGES, from, to })) ?? { items: [], complete: false };
    const complete = isCut ? false : pages.complete;
    return { ...pages, complete, isWhole: pages.items.length < PAGES && complete !== false };
  };
  const [series, pages, beforeSeries, beforePages] = await Promise.all([
    loadSeries(api, view, period),
    top(period),
    earlier ? loadSeries(api, view, { ...earlier, interval: period.interval }, until) : null,
    earlier ? top(earlier) : null,
  ]);
  return { series, pages, beforeSeries, beforePages };
}

/** Add up the series of the site's most viewed pages. Its visitors cannot be added up, because many see several pages. */
async function loadSums(api, view, period, earlier, until) {
  const { items } = await api.getViewsTop({ site: view.site, limit: SUMMED });
  if (view.period === "all") return { series: view.page ? await loadSeries(api, view, period) : null, pages: { items } };
  const step = stepOf(period), all = { from: (earlier || period).from, to: period.to };
  const each = await Promise.all(items.map(async ({ url }) => ({ url, items: await read(api, { page: url }, all, step) })));
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
 * Load the hours, days or months of a site or of one page, and their totals. `until` cuts the series. The visitors of
 * a part of a day are not known (null).
 */
async function loadSeries(api, view, period, until = Infinity) {
  const isHourly = period.interval === "hour", isCut = until !== Infinity;
  // A visitor counts once on each day, so the visitors of hours do not add up to those of the day.
  const [all, days] = await Promise.all([read(api, view, period, stepOf(period)), isHourly && !isCut ? read(api, view, period, "day") : null]);
  const items = all.filter(({ time }) => Date.parse(time) <= until);
  return {
    views: sum(items, "views"),
    visitors: isCut ? null : sum(days ?? items, "visitors"),
    items: period.interval === "month" ? byMonth(items) : items,
  };
}

/** Read every hour or day of a site or of one page. */
async function read(api, { site, page }, { from, to }, step) {
  const call = page ? "getViewsSeries" : "getViewsSite", subject = page ? { url: page } : { site };
  const today = isoDate(Date.now());
  const parts = await Promise.all(split({ from, to }).map((part) => (
    // Without `to` the series ends now, so it has no hours in the future.
    api[call]({ ...subject, interval: step, from: part.from, to: part.to < today ? part.to : undefined })
  )));
  return parts.flatMap(({ items }) => items).map(({ time, views, visitors, uniques }) => ({ time, views, visitors: visitors ?? uniques }));
}

/** Return what a call returns, or null if the stage does not offer it. */
async function offered(call) {
  try {
    return await call;
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

/**
 * Return the first and last dates on which a site or a page has views, or null. Searches a year at a time, from now on
 * backwards, until a year after the first found one has none. Where the stage does not offer totals of sites, the
 * most viewed page stands for its site.
 */
export async function findViews(api, { site, page }) {
  const hasTotals = await offered(api.getViewsSite({ site, interval: "hour", from: isoDate(Date.now()) }));
  const subject = page || hasTotals ? page : (await api.getViewsTop({ site, limit: 1 })).items[0]?.url;
  if (!subject && !hasTotals) return null;
  let first = "", last = "", to = Date.now();
  for (let looks = 0; looks < MOST_YEARS; looks += 1) {
    const from = to - (LONGEST - 1) * DAY;
    const seen = (await read(api, { site, page: subject }, { from: isoDate(from), to: isoDate(to) }, "day")).filter(({ views }) => views);
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
