// The calls of the client (hubbub.js), by name.

import { Hubbub } from "./core.js";

// Written by `python -m ops client`: each call with its method and path. `!` needs a token.
// The names behind `?` are sent in the query, the others in the body. A call without a body sends all in the query.
const CALLS = {
  postGuest: "POST guests",
  postViews: "POST views",
  getViews: "GET views",
  getViewsSeries: "GET views/series",
  getViewsEvents: "GET! views/events",
  getViewsTop: "GET views/top",
  getViewsSite: "GET views/site",
  getViewsReferrers: "GET views/referrers",
  getViewsVisitors: "GET views/visitors",
  getViewsCampaigns: "GET views/campaigns",
  getViewsGoals: "GET views/goals",
  getSites: "GET! sites",
  putSite: "PUT! sites/{site}",
  getSite: "GET! sites/{site}",
  deleteSite: "DELETE! sites/{site}",
  postSiteLink: "POST! sites/{site}/links",
  putBoard: "PUT! leaderboards/{board}",
  getBoard: "GET leaderboards/{board}",
  getBoards: "GET! leaderboards",
  postSeason: "POST! leaderboards/{board}/seasons",
  postScore: "POST! leaderboards/{board}/scores?standing",
  getRank: "GET leaderboards/{board}/rank",
  getScore: "GET leaderboards/{board}/score",
  getStandings: "GET leaderboards/{board}/standings",
  getPlayer: "GET leaderboards/{board}/players/{player}",
  deletePlayer: "DELETE! leaderboards/{board}/players/{player}",
  getActivities: "GET! leaderboards/{board}/players/{player}/activities",
  getEntries: "GET leaderboards/{board}/entries",
  getDistribution: "GET leaderboards/{board}/distribution",
  putChallenge: "PUT! challenges/{challenge}",
  getChallenge: "GET challenges/{challenge}",
  getChallenges: "GET! challenges",
  postChallengePath: "POST! challenges/{challenge}/paths",
  getChallengePlayer: "GET! challenges/{challenge}/players/{player}",
  deleteChallengePlayer: "DELETE! challenges/{challenge}/players/{player}",
  deleteChallengePath: "DELETE! challenges/{challenge}/players/{player}/paths/{path}",
  getChallengeLeaders: "GET challenges/{challenge}/leaders",
  getChallengeStatistics: "GET challenges/{challenge}/statistics",
  putProduct: "PUT! products/{product}",
  getProduct: "GET products/{product}",
  deleteProduct: "DELETE! products/{product}",
  postComment: "POST! products/{product}/comments",
  getComments: "GET products/{product}/comments",
  getAllComments: "GET! comments",
  getProducts: "GET! products",
  getHidden: "GET! products/{product}/hidden",
  getComment: "GET products/{product}/comments/{id}",
  patchComment: "PATCH! products/{product}/comments/{id}",
  deleteComment: "DELETE! products/{product}/comments/{id}",
  putVote: "PUT! products/{product}/comments/{id}/vote",
  deleteVote: "DELETE! products/{product}/comments/{id}/vote",
  postReply: "POST! products/{product}/comments/{id}/replies",
  getReplies: "GET products/{product}/comments/{id}/replies",
  patchReply: "PATCH! products/{product}/comments/{id}/replies/{reply}",
  deleteReply: "DELETE! products/{product}/comments/{id}/replies/{reply}",
  getAllReplies: "GET! replies",
  postCommentReport: "POST! products/{product}/comments/{id}/reports",
  deleteCommentReports: "DELETE! products/{product}/comments/{id}/reports",
  getCommentReports: "GET! comments/reports",
  getCommentBans: "GET! comments/bans",
  putCommentBan: "PUT! comments/bans/{author}",
  deleteCommentBan: "DELETE! comments/bans/{author}",
  getStatistics: "GET products/{product}/statistics",
  getLeaders: "GET products/leaders",
  getLag: "GET! lag",
  getQuarantine: "GET! quarantine",
  getChatReports: "GET! chat/reports",
  postChatReport: "POST! chat/reports/{id}",
  getHealth: "GET health",
  getPageConfig: "GET web/config.json",
};

Hubbub.calls = CALLS;

for (const name of Object.keys(CALLS)) {
  Hubbub.prototype[name] = function (args, options) {
    const load = async (more) => (await this.request(name, { ...args, ...more }, options)).body;
    const first = load();
    // A list can be awaited, which gives its first page, or iterated over, which loads page after page.
    first[Symbol.asyncIterator] = async function* () {
      for (let page = await first; ; page = await load({ cursor: page.cursor })) {
        yield* page.items;
        if (!page.cursor) return;
      }
    };
    return first;
  };
}
