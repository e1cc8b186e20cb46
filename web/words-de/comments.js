// What <hubbub-comments> says in German.

import { counted, format } from "./shared.js";

export { words as shared } from "./shared.js";

const stars = (number) => counted(number, "Stern", "Sterne");
const decimal = new Intl.NumberFormat("de", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const words = {
  title: "Kommentare",
  filter: "Kommentare filtern",
  language: "Sprache",
  allLanguages: "Alle Sprachen",
  order: "Reihenfolge",
  orders: { newest: "Neueste zuerst", oldest: "Älteste zuerst", helpful: "Hilfreichste", highest: "Beste Bewertung", lowest: "Schlechteste Bewertung" },
  verified: "Bestätigt",
  noRating: "Keine Bewertung",
  comments: (total) => counted(total, "Kommentar", "Kommentare"),
  news: "Neue Kommentare zeigen",
  noMatch: "Kein Kommentar passt zu dieser Auswahl.",
  none: "Noch keine Kommentare.",
  shown: (number) => `${format(number)} angezeigt`,
  noRatings: "Noch keine Bewertungen",
  facts: (average, total) => ` ${decimal.format(average)} von 5, ${counted(total, "Kommentar", "Kommentare")}`,
  starsBefore: (rating) => (rating === 1 ? "Stern, Kommentare:" : "Sterne, Kommentare:"),
  stars,
  starsOf5: (rating) => `${rating} von 5 Sternen`,
  signIn: "Melde dich an, um zu kommentieren.",
  post: "Kommentieren",
  already: "Du hast schon kommentiert. Das ist dein Kommentar.",
  helpful: "Hilfreich",
  foundHelpful: (number) => `${counted(number, "Person findet", "Personen finden")} das hilfreich`,
  reply: "Antworten",
  replies: (number) => counted(number, "Antwort", "Antworten"),
  moreReplies: "Mehr Antworten zeigen",
  yourReply: "Deine Antwort",
  postReply: "Antwort senden",
  signInToReply: "Melde dich an, um zu antworten.",
  edited: "bearbeitet",
  edit: "Bearbeiten",
  save: "Speichern",
  cancel: "Abbrechen",
  delete: "Löschen",
  deleteComment: "Diesen Kommentar löschen?",
  deleteReply: "Diese Antwort löschen?",
  pending: "Wartet auf Freigabe",
  report: "Melden",
  reason: "Was stimmt damit nicht?",
  reported: "Gemeldet. Danke!",
  rating: "Deine Bewertung",
  text: "Dein Kommentar",
  errors: {
    PreconditionFailed: "Dieser Kommentar wurde inzwischen geändert. Brich ab und bearbeite ihn noch einmal.",
  },
};
