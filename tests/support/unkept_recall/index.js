/** Recall as a hook does it: into the turn's own message, which the history of the next turn shows without it. */
export default {
  id: "unkept-recall",
  name: "Recall that does not stay",
  description: "For comparison with recalls that stay.",
  register(api) {
    api.on("before_prompt_build", async (event, ctx) => {
      if (ctx?.trigger !== "user") return;
      const agent = encodeURIComponent(ctx.agentId ?? "main");
      try {
        const reply = await fetch(`${api.pluginConfig.url}/v1/agents/${agent}/memories:recall`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ query: event.currentUserMessage ?? event.prompt, session_id: ctx.sessionId }),
          signal: AbortSignal.timeout(10_000),
        });
        const { text } = await reply.json();
        if (text) return { prependContext: text };
      } catch {
        return; // the server is away: no recall
      }
    });
  },
};
