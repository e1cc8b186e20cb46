// What <hubbub-views> says in English.

import { counted } from "./shared.js";

export { words as shared } from "./shared.js";

const views = (number) => counted(number, "view", "views");
const visitors = (number) => counted(number, "visitor", "visitors");

export const words = {
  title: "Views of this page",
  mostViewed: "Most viewed pages",
  views: (number) => (number === 1 ? "view" : "views"),
  visitors: (number) => (number === 1 ? "visitor" : "visitors"),
  visitorsMeaning: "Each visitor counts once a day (UTC)",
  both: (viewCount, visitorCount) => `${views(viewCount)}, ${visitors(visitorCount)}`,
  lastDays: (number) => `${views(number)} since the day before yesterday.`,
  hours: "Hour (UTC)",
  perHour: "Views per hour",
  none: "No views yet.",
};
