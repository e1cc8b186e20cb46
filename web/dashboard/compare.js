// The difference between a period and the period before it.

import { readable } from "../lib/labels.js";
import { percent, words } from "../lib/pages.js";
import { html, nothing } from "../vendor/lit.js";

const text = words.dashboard;

/** Return the path and the query of a page as a person reads them. */
export function pathOf(url) {
  const { pathname, search } = new URL(url);
  return readable(pathname + search);
}

/** Return the views per visitor. */
export const ratio = ({ views, visitors }) => (visitors ? views / visitors : 0);

export const direction = (value, earlier) => (value > earlier ? "up" : value < earlier ? "down" : "");

/** Format a relative change: "+12 %", "−3 %", "new". */
export function change(value, earlier) {
  if (!earlier) return value ? text.new : "±0";
  const share = (value - earlier) / earlier;
  return `${share > 0 ? "+" : share < 0 ? "−" : "±"}${percent(Math.abs(share))}`;
}

/**
 * Return the pages with their views in the period before (`earlier`) and the difference (`by`). Both are null for a page
 * that is not in the list of the period before, if that list does not have every page.
 */
export function growth(pages, before) {
  const views = new Map(before.items.map((page) => [page.url, page.views]));
  return pages.items.map((page) => {
    const earlier = views.get(page.url) ?? (before.isWhole === false ? null : 0);
    return { ...page, earlier, by: earlier === null ? null : page.views - earlier };
  });
}

/** Say in words what happened: how the views changed, which page grew most, and where visitors came from. */
export function summary({ series, before, pages, referrers }, { page }) {
  const said = [];
  if (series && before?.series?.views) said.push(text.changed(series.views, before.series.views));
  else if (series) said.push(series.visitors === null ? text.totalViews(series.views) : text.total(series.views, series.visitors));
  if (!page) {
    const grown = before?.pages?.items.length ? growth(pages, before.pages).sort((first, other) => (other.by ?? 0) - (first.by ?? 0))[0] : null;
    if (grown?.by > 0) said.push(text.grewMost(pathOf(grown.url), grown.by));
    else if (pages.items.length) said.push(text.mostViewed(pathOf(pages.items[0].url), pages.items[0].views));
    const source = referrers?.find(({ referrer }) => referrer !== "direct");
    if (source) said.push(text.topReferrer(source.referrer, source.views));
  }
  return said.length ? html`<p class="summary" id="summary">${said.join(" ")}</p>` : nothing;
}
