// The texts that several modules share, and functions that format numbers and times as text.

export const LANGUAGES = { en: "English", de: "Deutsch", fr: "Français", es: "Español" };

/** Why a view was not counted, by the code in the API's response. */
export const REJECTIONS = {
  bot: "this browser identifies itself as a crawler",
  site_not_allowed: "this stage does not count views of that site",
  in_the_future: "the clock of this computer is ahead of the server’s",
  too_old: "the clock of this computer is behind the server’s",
  bad_url: "this is not the address of a page",
};

export const CHAT_STATES = {
  offline: "Not connected",
  lost: "Connection lost. Reconnecting …",
  waiting: "Waiting for a partner",
  matched: "You are chatting with a stranger",
  idle: "You have left the lobby",
};

/** Messages for the codes of error frames. */
export const CHAT_ERRORS = {
  not_matched: "You have no chat partner.",
  too_long: "The message is too long.",
  slow_down: "You are sending too fast. Please wait a moment.",
  bad_request: "The request was not valid.",
};

export const REPORT_REASONS = ["Insults", "Advertising", "Something else"];

export const NOT_RESPONDING = "Hubbub is not responding.";

export const count = new Intl.NumberFormat("en");
const score = new Intl.NumberFormat("en", { maximumFractionDigits: 9 });
const compact = new Intl.NumberFormat("en", { notation: "compact" });
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const rules = new Intl.PluralRules("en", { type: "ordinal" });
const ENDS = { one: "st", two: "nd", few: "rd", other: "th" };
const SPANS = [["day", 86400], ["hour", 3600], ["minute", 60]];

/** Format a count with its noun: "1 view", "1,539 views". */
export function plural(number, noun) {
  return `${count.format(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** Format a rank: "1st", "211th", "1,002nd". */
export function ordinal(number) {
  return count.format(number) + ENDS[rules.select(number)];
}

/** Format a score with all its decimals. */
export const points = (number) => score.format(number);

/** Format a number for an axis: "950", "1.2K". */
export const short = (number) => (Math.abs(number) < 10_000 ? score.format(number) : compact.format(number));

/** Format how long ago a time was: "3 minutes ago", "yesterday". */
export function ago(time) {
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  const [unit, size] = SPANS.find(([, span]) => seconds >= span) ?? [null, 1];
  return unit ? relative.format(-Math.floor(seconds / size), unit) : "just now";
}
