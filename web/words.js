// Numbers and times as words.

export const count = new Intl.NumberFormat("en");
const score = new Intl.NumberFormat("en", { maximumFractionDigits: 9 });
const compact = new Intl.NumberFormat("en", { notation: "compact" });
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const rules = new Intl.PluralRules("en", { type: "ordinal" });
const ENDS = { one: "st", two: "nd", few: "rd", other: "th" };
const SPANS = [["day", 86400], ["hour", 3600], ["minute", 60]];

/** Say how many: "1 view", "1,539 views". */
export function plural(number, noun) {
  return `${count.format(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** Say a place: "1st", "211th", "1,002nd". */
export function ordinal(number) {
  return count.format(number) + ENDS[rules.select(number)];
}

/** Write a score, with all its decimals. */
export const points = (number) => score.format(number);

/** Write a number for an axis: "950", "1.2K". */
export const short = (number) => (Math.abs(number) < 10_000 ? score.format(number) : compact.format(number));

/** Say how long ago: "3 minutes ago", "yesterday". */
export function ago(time) {
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  const [unit, size] = SPANS.find(([, span]) => seconds >= span) ?? [null, 1];
  return unit ? relative.format(-Math.floor(seconds / size), unit) : "just now";
}
