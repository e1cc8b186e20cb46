// What <hubbub-chat> says in German.

export { words as shared } from "./shared.js";

export const words = {
  title: "Chat",
  start: "Chat beginnen",
  message: "Nachricht",
  messages: "Nachrichten",
  send: "Senden",
  next: "Weiter",
  leave: "Verlassen",
  report: "Melden",
  reason: "Grund",
  sendReport: "Meldung senden",
  reasons: ["Beleidigung", "Werbung", "Etwas anderes"],
  you: "Du",
  stranger: "Gegenüber",
  typing: "Dein Gegenüber schreibt …",
  strangerLeft: "Dein Gegenüber ist gegangen.",
  youLeft: "Du hast den Chat verlassen.",
  back: "Du bist wieder mit demselben Gegenüber verbunden.",
  reported: "Deine Meldung wurde gesendet. Du triffst diese Person nicht wieder.",
  notSent: "Nicht gesendet.",
  sendAgain: "Noch einmal senden",
  unavailable: "Der Chat ist gerade nicht verfügbar.",
  states: {
    out: "Chatte mit jemandem, den du nicht kennst. Nachrichten werden nicht gespeichert.",
    offline: "Verbindung wird hergestellt …",
    waiting: "Ein Gegenüber wird gesucht",
    matched: "Du bist mit jemandem verbunden",
    idle: "Du hast den Raum verlassen",
  },
  errors: {
    not_matched: "Du bist mit niemandem verbunden.",
    unconfirmed: "Dein Gegenüber ist vielleicht offline.",
    too_long: "Die Nachricht ist zu lang.",
    slow_down: "Du sendest zu schnell. Bitte warte einen Augenblick.",
    bad_request: "Das wurde nicht angenommen.",
  },
};
