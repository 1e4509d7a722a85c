// Load in three steps, to see a fleet grow and shrink: k6 run -e TARGET=https://shop.example docs/examples/load/k6.js
// The steps are long, because scale-up waits for two readings, and scale-down for ten quiet minutes and a cooldown.
import http from 'k6/http';
import { check } from 'k6';

const target = __ENV.TARGET;
const peak = Number(__ENV.PEAK || 200); // requests per second at the most
const minute = Number(__ENV.MINUTE || 60); // seconds: 1 rehearses the whole in 74 seconds, to see that the target answers
const minutes = (count) => `${count * minute}s`;

export const options = {
  scenarios: {
    day: {
      executor: 'ramping-arrival-rate',
      startRate: peak / 10,
      timeUnit: '1s',
      preAllocatedVUs: peak,
      maxVUs: peak * 5,
      stages: [
        { target: peak / 10, duration: minutes(10) }, // rest: what min can carry
        { target: peak, duration: minutes(2) }, // the rush
        { target: peak, duration: minutes(20) },
        { target: peak / 10, duration: minutes(2) },
        { target: peak / 10, duration: minutes(40) }, // the fleet comes back to min
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
