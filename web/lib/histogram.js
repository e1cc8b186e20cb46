// The distribution of scores as a chart, in ranges with round edges.

import { Bars } from "./chart.js";

const MOST_BARS = 30;

export class Histogram extends Bars {
  /** Show ranges of scores in a figure. The range of the `score` is highlighted. */
  showScores(host, buckets, options) { this.show(host, histogram(buckets, options)); }
}

/** Return what `Bars` shows of the ranges of scores. */
export function histogram(buckets, { unit, score, text, words, formats: { points, short } }) {
  const merged = merge(buckets);
  return {
    series: [{ values: merged.map(({ players }) => players), className: "views", width: 0.86 }],
    marked: score === undefined ? -1 : merged.findIndex(({ from, to }) => from <= score && score <= to),
    ticks: (width, measure) => edges(merged, width, measure, distinct(merged, short, points)),
    short,
    xTitle: unit ? text.scoreIn(unit) : words.score,
    yTitle: words.playersAxis,
    describe: (i) => text.range(points(merged[i].from), points(merged[i].to), merged[i].players),
    summary: text.scores(points(merged[0].from), points(merged.at(-1).to)),
    hint: words.chartHint,
  };
}

/** Merge adjacent ranges so that there are at most MOST_BARS. The merged ranges begin at multiples of their width. */
function merge(buckets) {
  const width = buckets.length > 1 ? buckets[1].from - buckets[0].from : 1;
  const by = [1, 2, 5, 10].find((size) => buckets.length / size < MOST_BARS);
  const merged = [];
  for (const { from, to, players } of buckets) {
    const number = Math.floor(from / (width * by) + 1e-9), last = merged.at(-1);
    if (last?.number === number) Object.assign(last, { to, players: last.players + players });
    else merged.push({ number, from, to, players });
  }
  return merged;
}

/** Return the format whose labels of the ranges differ: the short one, or the one with all digits. */
function distinct(merged, short, points) {
  return new Set(merged.map(({ from }) => short(from))).size === merged.length ? short : points;
}

/** Label the edges between ranges with the score at which the next one begins. */
function edges(merged, width, measure, format) {
  const widest = Math.max(...merged.map(({ from }) => measure(format(from)))) + 12;
  const every = [1, 2, 5, 10, 20, 50].find((step) => step * (width / merged.length) >= widest) ?? merged.length;
  const size = merged.length > 1 ? merged.at(-1).from - merged.at(-2).from : 1; // the first range may begin within its width
  const isRound = ({ from }) => Math.abs(from / (size * every) - Math.round(from / (size * every))) < 1e-6;
  const ticks = merged.flatMap((range, i) => (isRound(range) ? [{ at: i - 0.5, text: format(range.from) }] : []));
  return ticks.length ? ticks : [{ at: -0.5, text: format(merged[0].from) }];
}
