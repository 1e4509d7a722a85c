// Load in three steps, to see a fleet grow and shrink: k6 run -e TARGET=https://shop.example docs/examples/load/k6.js
// The steps are long, because scale-up waits for two readings, and scale-down for ten quiet minutes and a cooldown.
import http from 'k6/http';
import { check } from 'k6';

const target = __ENV.TARGET;
const peak = Number(__ENV.PEAK || 200); // requests per second at the most

export const options = {
  scenarios: {
    day: {
      executor: 'ramping-arrival-rate',
      startRate: peak / 10,
      timeUnit: '1s',
      preAllocatedVUs: peak,
      maxVUs: peak * 5,
      stages: [
        { target: peak / 10, duration: '10m' }, // rest: what min can carry
        { target: peak, duration: '2m' }, // the rush
        { target: peak, duration: '20m' },
        { target: peak / 10, duration: '2m' },
        { target: peak / 10, duration: '40m' }, // the fleet comes back to min
      ],
    },
  },
  thresholds: {
    http_req_failed: ['rate<0.01'],
    http_req_duration: ['p(95)<1000'],
  },
};

export default function () {
  check(http.get(target), { 'status is 200': (answer) => answer.status === 200 });
}
