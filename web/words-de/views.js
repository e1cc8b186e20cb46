// What <hubbub-views> says in German.

import { counted } from "./shared.js";

export { words as shared } from "./shared.js";

const views = (number) => counted(number, "Aufruf", "Aufrufe");
const visitors = (number) => counted(number, "Besucher", "Besucher");

export const words = {
  title: "Aufrufe dieser Seite",
  mostViewed: "Meistgelesene Seiten",
  views: (number) => (number === 1 ? "Aufruf" : "Aufrufe"),
  visitors: () => "Besucher",
  visitorsMeaning: "Jeder Besucher zählt einmal am Tag (UTC)",
  both: (viewCount, visitorCount) => `${views(viewCount)}, ${visitors(visitorCount)}`,
  lastDays: (number) => `${views(number)} seit vorgestern.`,
  hours: "Stunde (UTC)",
  perHour: "Aufrufe je Stunde",
  none: "Noch keine Aufrufe.",
};
