// The calls of the dashboard. All parts of a view are loaded for the same days.

import { dates, DAY, isoDate } from "../lib/language.js";
import { byMonth, LONGEST, resolve, split } from "./periods.js";

const PAGES = 100; // in one call
const REFERRERS = 50;
const MOST_YEARS = 15; // that are searched for the first views of a site

/**
 * Load a view. Returns its `period`, `now` (the last hour), `series`, `pages`, `referrers`, `campaigns`, and `before`:
 * the series and the pages of the period before. A part that the stage does not offer is null.
 */
export async function load(api, view, first) {
  const now = Date.now(), period = resolve(view, now, first);
  const earlier = view.compare && period.before;
  const [series, pages, referrers, campaigns, beforeSeries, beforePages, hour] = await Promise.all([
    loadSeries(api, view, period),
    loadPages(api, view, period),
    offered(api, "getViewsReferrers", { site: view.site, from: period.from, to: period.to, limit: REFERRERS }),
    null,
    earlier ? loadSeries(api, view, { ...earlier, interval: period.interval }, period.from === period.to ? now - DAY : 0) : null,
    earlier && period.from !== period.to ? loadPages(api, view, earlier) : null,
    loadSeries(api, view, { from: isoDate(now), to: isoDate(now), interval: "hour" }),
  ]);
  // A stage without totals of sites knows the pages of all time only.
  const isAllTime = view.period === "all" || !referrers;
  return {
    period, series, pages, campaigns, isAllTime,
    referrers: referrers?.items ?? null,
    // Without views there is nothing to compare with.
    before: beforeSeries?.views || beforePages?.items.length ? { series: beforeSeries, pages: isAllTime ? null : beforePages } : null,
    now: hour?.items.at(-1) ?? null,
  };
}

/**
 * Load the hours, days or months of a site or of one page, and their totals. `until` cuts the series, so that a part
 * of today is compared with the same part of yesterday. The visitors of a part of a day are not known (null).
 */
async function loadSeries(api, { site, page }, { from, to, interval }, until = 0) {
  const call = page ? "getViewsSeries" : "getViewsSite", subject = page ? { url: page } : { site };
  const today = isoDate(Date.now());
  const read = async (step) => {
    const parts = await Promise.all(split({ from, to }).map((part) => (
      // Without `to` the series ends now, so it has no hours in the future.
      offered(api, call, { ...subject, interval: step, from: part.from, to: part.to < today ? part.to : undefined })
    )));
    return parts.includes(null) ? null : parts.flatMap(({ items }) => items)
      .map(({ time, views, visitors, uniques }) => ({ time, views, visitors: visitors ?? uniques }))
      .filter(({ time }) => !until || Date.parse(time) <= until);
  };
  // A visitor counts once on each day, so the visitors of hours do not add up to those of the day.
  const isHourly = interval === "hour";
  const [items, days] = await Promise.all([read(isHourly ? "hour" : "day"), isHourly && !until ? read("day") : null]);
  if (!items) return null;
  const sum = (all, name) => all.reduce((total, item) => total + item[name], 0);
  return {
    views: sum(items, "views"),
    visitors: until ? null : sum(days ?? items, "visitors"),
    items: interval === "month" ? byMonth(items) : items,
  };
}

async function loadPages(api, { site, period }, { from, to }) {
  const query = period === "all" ? {} : { from, to };
  return api.getViewsTop({ site, limit: PAGES, ...query });
}

/** Return what a call returns, or null if the stage does not offer it. */
async function offered(api, name, args) {
  try {
    return api[name] ? await api[name](args) : null;
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

/**
 * Return the first and last dates on which a site has views, or null. Searches a year at a time, from now on
 * backwards, until a year after the first found one has none.
 */
export async function findViews(api, site) {
  let first = "", last = "", to = Date.now();
  for (let looks = 0; looks < MOST_YEARS; looks += 1) {
    const from = to - (LONGEST - 1) * DAY;
    const year = await offered(api, "getViewsSite", { site, interval: "day", from: isoDate(from), to: isoDate(to) });
    if (!year) return null;
    const seen = year.items.filter(({ views }) => views);
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
